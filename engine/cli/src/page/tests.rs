//! Parts of the page from facts, without a main loop.

use std::collections::BTreeMap;

use holdfast_api::fault::Class;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::health::facts::Effect;
use holdfast_engine::health::view::{Gets, Health, Severity};
use holdfast_engine::health::{Facts, judge};
use holdfast_fallback::view::Identity;
use holdfast_test_support::facts::{broken_shop, effect, facts, found, identity};
use maud::html;

use super::article::{SHOWN, address, article};
use super::filter::OverviewFilter;
use super::frame::{HtmlPage, KnownNames};
use super::hosts::{HostFacts, HostRow, HostService, list};

fn health(change: impl FnOnce(&mut Facts)) -> Health {
    let mut facts = facts();
    change(&mut facts);
    judge(&facts)
}

/// The hosts of findings, without any published configuration.
fn rows(health: &Health) -> Vec<HostRow> {
    let (published, objects, not_read) = (BTreeMap::new(), ObjectSnapshot::default(), BTreeMap::new());
    super::hosts::rows(&HostFacts { health, published: &published, objects: &objects, not_read: &not_read })
}

#[test]
fn a_host_has_the_worst_state_of_its_requests() {
    let health = judge(&broken_shop());
    let rows = self::rows(&health);
    let shown: Vec<(&str, HostService)> = rows.iter().map(|row| (&*row.host, row.state)).collect();
    assert_eq!(shown.first(), Some(&("shop.example.com", HostService::Error)), "{shown:?}");
    let text = list(&rows, &OverviewFilter::default()).into_string();
    assert!(text.contains("rules[0] answers 500: shop.example.com /cart/*"), "{text}");
    let earlier = health_with_an_earlier_version();
    let rows = self::rows(&earlier);
    assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), [HostService::Earlier]);
    let text = list(&rows, &OverviewFilter::default()).into_string();
    assert!(text.contains("generation 5 desired since ") && text.contains("generation 4 is served"), "{text}");
}

fn health_with_an_earlier_version() -> Health {
    let since = holdfast_check::time::Moment(1_795_168_800);
    health(|facts| {
        let object = identity("HTTPRoute", "shop", "pay");
        facts.found.push(found(object.clone(), "spec.rules[0]", Class::Invalid, "UnsupportedValue", "invalid regex"));
        let gets = Gets::LastValid { generation: 4, since, except: [].into() };
        facts.effects.push(Effect { hosts: ["pay.example.com".into()].into(), ..effect(object, "", gets, &[]) });
    })
}

#[test]
fn a_host_that_another_listener_serves_has_no_error() {
    let health = health(|facts| {
        let object = identity("ListenerSet", "young", "own");
        facts.found.push(found(object.clone(), "spec.listeners[0]", Class::Conflict, "HostnameConflict", "taken"));
        let hosts = ["old.example".into()].into();
        facts.effects.push(Effect { hosts, ..effect(object, "listeners[0]", Gets::AnotherListener, &[]) });
    });
    let rows = self::rows(&health);
    assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), [HostService::Served]);
    let text = list(&rows, &OverviewFilter::default()).into_string();
    assert!(text.contains("another listener of the port answers the requests to listeners[0]: old.example"), "{text}");
}

#[test]
fn nothing_from_outside_is_markup_or_controls_the_text() {
    let hostile = "<script>alert(1)</script>\"'\u{202e}\u{1b}[31m";
    let health = health(|facts| {
        let object = Identity { name: hostile.into(), ..identity("HTTPRoute", hostile, "x") };
        facts.found.push(found(object.clone(), hostile, Class::Invalid, hostile, hostile));
        let gets = Gets::Status { status: 404 };
        facts.effects.push(Effect { hosts: [hostile.into()].into(), ..effect(object, hostile, gets, &[]) });
    });
    let hosts = list(&self::rows(&health), &OverviewFilter::default());
    let articles = health.of(Severity::Outage).iter().map(|finding| article(finding, Severity::Outage, 0, SHOWN));
    let text = html! { (hosts) @for article in articles { (article) } }.into_string();
    assert!(text.contains("&lt;script&gt;"), "{text}");
    for raw in ["<script", "\u{202e}", "\u{1b}", "x=\"<"] {
        assert!(!text.contains(raw), "{raw:?}: {text}");
    }
    let object = Identity { name: "a/b ?#".into(), ..identity("HTTPRoute", "shop", "x") };
    assert_eq!(address(&object), "/object/HTTPRoute/shop/a%2Fb%20%3F%23");
}

#[test]
fn every_page_forbids_scripts_other_than_its_own() {
    let page = || HtmlPage {
        title: "<b>".into(),
        filter: OverviewFilter::default(),
        known: KnownNames::default(),
        content: html! {},
        now: 0,
        changes: 0,
        status: axum::http::StatusCode::OK,
    };
    let policy =
        |page: HtmlPage| page.response().headers().get("content-security-policy").unwrap().to_str().unwrap().to_owned();
    let (first, second) = (policy(page()), policy(page()));
    assert!(first.starts_with("default-src 'none'; style-src 'nonce-"), "{first}");
    assert!(first.contains("form-action 'self'; base-uri 'none'; frame-ancestors 'none'"), "{first}");
    assert_ne!(first, second);
}
