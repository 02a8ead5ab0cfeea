//! Tests of guards at several levels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use prost::{Message, Name};

use super::*;
use crate::features::call_options::CallOptions;
use crate::features::ext_auth::{AuthProtocol, AuthServer};
use crate::features::jwt::{JwtFilter, Requirement};
use crate::features::remote::{DnsHost, Family, Remote};

fn server(name: &str) -> Arc<AuthServer> {
    let remote =
        DnsHost { host: "auth.example.com".into(), port: 80, family: Family::Auto, tls: None, loopback: false };
    Arc::new(AuthServer {
        name: name.into(),
        owners: vec![],
        remote: Remote::Host(Arc::new(remote)),
        call_options: CallOptions::default(),
        spoken: AuthProtocol::Grpc,
        timeout: std::time::Duration::from_secs(1),
        fail_open: false,
        body: None,
        headers: vec![],
        status_on_error: None,
        stat_prefix: None,
    })
}

fn rule_auth(name: &str) -> Guards {
    Guards { rule_auth: ext_auth(name).ext_auth.into_iter().collect(), ..Guards::default() }
}

fn ext_auth(name: &str) -> Guards {
    let auth = RouteExtAuth { server: server(name), context: BTreeMap::new(), body: None };
    Guards { ext_auth: Some(auth), ..Guards::default() }
}

fn token(name: &str) -> Guards {
    let filter =
        JwtFilter { name: name.into(), owners: vec![], providers: BTreeMap::new(), requirements: BTreeSet::new() };
    let requirement = Requirement { providers: BTreeSet::new(), allow_missing: false };
    Guards { jwt: Some(RouteJwt { filter: Arc::new(filter), requirement }), ..Guards::default() }
}

fn off(kind: GuardKind) -> Guards {
    Guards { off: BTreeSet::from([kind]), ..Guards::default() }
}

/// Returns Envoy's settings: `guard: a b` for required filters, `-a` for a disabled filter, `a` for a filter with
/// settings.
fn encoded(guards: &Guards) -> Vec<String> {
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
    let auth = RouteExtAuth { server: server("a"), context, body: None };
    let guards = Guards { ext_auth: Some(auth), ..token("t") };
    assert_eq!(encoded(&guards), ["guard: a t", "a", "t"]);
    // Equal content gives equal bytes, also of maps.
    assert_eq!(guards.encode(), guards.encode());
    assert!(Guards::default().encode().is_empty());
    assert!(off(GuardKind::ExtAuth).encode().is_empty());
}

#[test]
fn unset_guards_leave_other_levels_unchanged() {
    assert!(Guards::default().under([&ext_auth("a"), &token("t")]).encode().is_empty());
}

#[test]
fn what_stays_in_force_is_demanded_once_more() {
    assert_eq!(encoded(&token("t").under([&ext_auth("a")])), ["guard: t a", "t"]);
    assert_eq!(encoded(&token("t").under([&Guards::default(), &ext_auth("a")])), ["guard: t a", "t"]);
}

#[test]
fn another_one_of_the_kind_replaces() {
    assert_eq!(encoded(&ext_auth("b").under([&ext_auth("a")])), ["guard: b", "-a", "b"]);
    assert_eq!(encoded(&ext_auth("b").under([&ext_auth("a"), &token("t")])), ["guard: b t", "-a", "b"]);
    // The same filter with other settings.
    assert_eq!(encoded(&ext_auth("a").under([&ext_auth("a")])), ["guard: a", "a"]);
}

#[test]
fn switched_off_nothing_is_demanded_for_it() {
    assert_eq!(encoded(&off(GuardKind::ExtAuth).under([&ext_auth("a")])), ["-holdfast.guard", "-a"]);
    let both = Guards { jwt: token("t").jwt, ..ext_auth("a") };
    assert_eq!(encoded(&off(GuardKind::ExtAuth).under([&both])), ["guard: t", "-a"]);
    assert!(encoded(&off(GuardKind::Jwt).under([&Guards::default()])).is_empty());
    // Another kind stays in force.
    assert_eq!(encoded(&off(GuardKind::Jwt).under([&ext_auth("a")])), ["guard: a"]);
}

#[test]
fn of_two_levels_the_closer_one_counts() {
    let (host, table) = (ext_auth("b"), Guards { jwt: token("t").jwt, ..ext_auth("a") });
    assert_eq!(encoded(&host.under([&table])), ["guard: b t", "-a", "b"]);
    assert_eq!(encoded(&token("u").under([&host, &table])), ["guard: u b", "-a", "-t", "u"]);
    assert_eq!(encoded(&token("u").under([&off(GuardKind::ExtAuth), &table])), ["guard: u", "-a", "-t", "u"]);
    // A filter that the host sets again stays in force, although the table sets it as well.
    assert_eq!(encoded(&token("u").under([&ext_auth("a"), &table])), ["guard: u a", "-t", "u"]);
}

#[test]
fn the_authorization_of_a_rule_and_that_of_policies_are_both_in_force() {
    assert_eq!(encoded(&rule_auth("r").under([&ext_auth("a")])), ["guard: r a", "r"]);
    assert_eq!(encoded(&Guards { rule_auth: rule_auth("r").rule_auth, ..ext_auth("a") }), ["guard: a r", "a", "r"]);
    let opened = Guards { rule_auth: rule_auth("r").rule_auth, ..off(GuardKind::ExtAuth) };
    assert_eq!(encoded(&opened.under([&ext_auth("a")])), ["guard: r", "-a", "r"]);
    let both = Guards { rule_auth: [rule_auth("r").rule_auth, rule_auth("s").rule_auth].concat(), ..ext_auth("a") };
    assert_eq!(encoded(&both), ["guard: a r s", "a", "r", "s"]);
}
