//! Tests of guards at several levels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use prost::{Message, Name};

use super::*;
use crate::features::asking::Asking;
use crate::features::ext_auth::{AuthServer, Spoken};
use crate::features::jwt::{JwtFilter, Requirement};
use crate::features::remote::{DnsHost, Family, Remote};

fn server(name: &str) -> Arc<AuthServer> {
    let remote =
        DnsHost { host: "auth.example.com".into(), port: 80, family: Family::Auto, tls: None, loopback: false };
    Arc::new(AuthServer {
        name: name.into(),
        owners: vec![],
        remote: Remote::Host(Arc::new(remote)),
        asking: Asking::default(),
        spoken: Spoken::Grpc,
        timeout: std::time::Duration::from_secs(1),
        fail_open: false,
        body: None,
        headers: vec![],
        status_on_error: None,
        stat_prefix: None,
    })
}

fn asks(name: &str) -> Guards {
    let auth = ExtAuth { server: server(name), context: BTreeMap::new(), body: None };
    Guards { ext_auth: Some(auth), ..Guards::default() }
}

fn token(name: &str) -> Guards {
    let filter =
        JwtFilter { name: name.into(), owners: vec![], providers: BTreeMap::new(), requirements: BTreeSet::new() };
    let requirement = Requirement { providers: BTreeSet::new(), allow_missing: false };
    Guards { jwt: Some(Jwt { filter: Arc::new(filter), requirement }), ..Guards::default() }
}

fn off(kind: Kind) -> Guards {
    Guards { off: BTreeSet::from([kind]), ..Guards::default() }
}

/// Returns Envoy's settings: `guard: a b` for required filters, `-a` for a disabled filter, `a` for a filter with
/// settings.
fn told(guards: &Guards) -> Vec<String> {
    let one = |(name, config): (String, Any)| {
        if config.type_url == FilterConfig::type_url() {
            return format!("-{name}");
        }
        if name != GUARD {
            return name;
        }
        let demanded = format!("{:?}", RbacPerRoute::decode(&*config.value).unwrap_or_default());
        let names =
            demanded.split("Contains(\"|").skip(1).filter_map(|rest| rest.split_once("|\"").map(|(name, _)| name));
        format!("guard: {}", names.collect::<Vec<_>>().join(" "))
    };
    guards.encode().into_iter().map(one).collect()
}

#[test]
fn alone_it_demands_each_of_its_filters() {
    let context = (0..20).map(|number| (format!("key-{number}"), "value".to_owned())).collect();
    let auth = ExtAuth { server: server("a"), context, body: None };
    let guards = Guards { ext_auth: Some(auth), ..token("t") };
    assert_eq!(told(&guards), ["guard: a t", "a", "t"]);
    // Equal content gives equal bytes, also of maps.
    assert_eq!(guards.encode(), guards.encode());
    assert!(Guards::default().encode().is_empty());
    assert!(off(Kind::ExtAuth).encode().is_empty());
}

#[test]
fn whoever_says_nothing_leaves_everything_as_it_is() {
    assert!(Guards::default().under([&asks("a"), &token("t")]).encode().is_empty());
}

#[test]
fn what_stays_in_force_is_demanded_once_more() {
    assert_eq!(told(&token("t").under([&asks("a")])), ["guard: t a", "t"]);
    assert_eq!(told(&token("t").under([&Guards::default(), &asks("a")])), ["guard: t a", "t"]);
}

#[test]
fn another_one_of_the_kind_replaces() {
    assert_eq!(told(&asks("b").under([&asks("a")])), ["guard: b", "-a", "b"]);
    assert_eq!(told(&asks("b").under([&asks("a"), &token("t")])), ["guard: b t", "-a", "b"]);
    // The same filter with other settings.
    assert_eq!(told(&asks("a").under([&asks("a")])), ["guard: a", "a"]);
}

#[test]
fn switched_off_nothing_is_demanded_for_it() {
    assert_eq!(told(&off(Kind::ExtAuth).under([&asks("a")])), ["-holdfast.guard", "-a"]);
    let both = Guards { jwt: token("t").jwt, ..asks("a") };
    assert_eq!(told(&off(Kind::ExtAuth).under([&both])), ["guard: t", "-a"]);
    assert!(told(&off(Kind::Jwt).under([&Guards::default()])).is_empty());
    // Another kind stays in force.
    assert_eq!(told(&off(Kind::Jwt).under([&asks("a")])), ["guard: a"]);
}

#[test]
fn of_two_levels_the_closer_one_counts() {
    let (host, table) = (asks("b"), Guards { jwt: token("t").jwt, ..asks("a") });
    assert_eq!(told(&host.under([&table])), ["guard: b t", "-a", "b"]);
    assert_eq!(told(&token("u").under([&host, &table])), ["guard: u b", "-a", "-t", "u"]);
    assert_eq!(told(&token("u").under([&off(Kind::ExtAuth), &table])), ["guard: u", "-a", "-t", "u"]);
    // A filter that the host sets again stays in force, although the table sets it as well.
    assert_eq!(told(&token("u").under([&asks("a"), &table])), ["guard: u a", "-t", "u"]);
}
