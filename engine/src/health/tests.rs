//! Tests of health.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Class;
use holdfast_api::watch_problem::{WatchProblem, Why};
use holdfast_check::time::Moment;
use holdfast_fallback::view::{EnvoyCounts, ServedState};
use holdfast_graph::ObjectKey;

use super::facts::{Effect, Managed, NotAnswering, ObjectProblem, Refusing};
use super::view::Gets;
use super::*;
use crate::testing::facts::{broken_shop, effect, facts, found, identity};

/// 2026-11-20T10:00:00Z
const TEN: i64 = 1_795_168_800;

fn counts(health: &Health) -> (HealthVerdict, [usize; 4]) {
    let Summary { verdict, outages, degraded, warnings, inputs } = health.summary();
    (verdict, [outages, degraded, warnings, inputs])
}

#[test]
fn only_what_has_no_fault_is_served_by_envoys_and_is_read_whole_is_healthy() {
    assert_eq!(counts(&judge(&facts())), (HealthVerdict::Healthy, [0, 0, 0, 0]));
    assert_eq!(judge(&facts()).summary().sentence(), "Everything is served as desired.");
    let health = judge(&broken_shop());
    assert_eq!(counts(&health), (HealthVerdict::Down, [1, 1, 1, 1]));
    let sentence = "NOT everything is served as desired: 1 outage, 1 degraded, 1 warning, 1 input that cannot be read.";
    assert_eq!(health.summary().sentence(), sentence);
    let text = serde_json::to_string(&health).unwrap();
    assert_eq!(serde_json::from_str::<Health>(&text).unwrap(), health, "it is read as it is written");
}

#[test]
fn equal_causes_are_one_finding_in_whatever_order_they_come() {
    let mut facts = broken_shop();
    let health = judge(&facts);
    assert_eq!(health.outages[0].objects.len(), 2);
    assert_eq!(health.outages[0].served.len(), 2);
    facts.found.reverse();
    facts.effects.reverse();
    assert_eq!(judge(&facts), health);
}

/// Judges the health of a healthy Gateway after one change of its facts.
fn with(change: impl Fn(&mut Facts)) -> (HealthVerdict, [usize; 4]) {
    let mut facts = facts();
    change(&mut facts);
    counts(&judge(&facts))
}

#[test]
fn each_situation_alone_is_not_healthy() {
    use HealthVerdict::{Degraded, Down};
    let route = || identity("HTTPRoute", "shop", "cart");
    let one = |class, reason: &str| {
        let found = found(route(), "spec.rules[0].x", class, reason, "it is so");
        with(move |facts| facts.found.push(found.clone()))
    };
    assert_eq!(one(Class::Referential, "BackendNotFound"), (Down, [1, 0, 0, 0]));
    assert_eq!(one(Class::Referential, "NoMatchingParent"), (Down, [1, 0, 0, 0]));
    assert_eq!(one(Class::Invalid, "UnsupportedValue"), (Down, [1, 0, 0, 0]));
    assert_eq!(one(Class::Conflict, "DuplicateMatchConditions"), (Degraded, [0, 0, 1, 0]));
    assert_eq!(one(Class::Ignored, "TargetNotFound"), (Degraded, [0, 0, 1, 0]));
    let unused = found(identity("Backend", "shop", "b"), "spec.x", Class::Invalid, "Invalid", "it is so");
    let unused = ObjectProblem { used: false, ..unused };
    assert_eq!(with(|facts| facts.found.push(unused.clone())), (Degraded, [0, 0, 1, 0]));

    let envoys = |acknowledged, refused, pending| EnvoyCounts { acknowledged, refused, pending };
    let counted = |counts: EnvoyCounts, connected: usize| {
        with(move |facts| {
            facts.gateways[0].state.envoys = counts;
            facts.outside.connected = [("infra/public".into(), connected)].into();
        })
    };
    assert_eq!(counted(envoys(0, 0, 0), 0), (Down, [1, 0, 0, 0]), "no Envoy");
    assert_eq!(counted(envoys(0, 0, 0), 1), (Degraded, [0, 1, 0, 0]), "one that has not answered");
    assert_eq!(counted(envoys(1, 0, 1), 2), (Degraded, [0, 1, 0, 0]), "one of two has not answered");
    assert_eq!(counted(envoys(2, 0, 0), 2), (HealthVerdict::Healthy, [0, 0, 0, 0]));
    let refusing = |acknowledged, serves| {
        with(move |facts| {
            facts.gateways[0].state.envoys = envoys(acknowledged, 1, 0);
            let refusing = Refusing { message: "address already in use".into(), serves };
            facts.gateways[0].refusing.insert("one".into(), refusing);
        })
    };
    assert_eq!((refusing(0, true), refusing(1, true)), ((Down, [1, 0, 0, 0]), (Degraded, [0, 1, 0, 0])));
    assert_eq!(refusing(1, false), (Down, [1, 0, 0, 0]), "it came with nothing, and takes nothing");
    let silent = with(|facts| {
        facts.gateways[0].state.envoys = envoys(2, 0, 0);
        facts.outside.connected = [("infra/public".into(), 2)].into();
        facts.outside.not_answering = not_answering(true, false);
    });
    assert_eq!(silent, (Degraded, [0, 1, 0, 0]), "one of two does not answer");
    let state = |state| with(move |facts| facts.gateways[0].state.state = state);
    for on_its_way in [ServedState::Trying, ServedState::Probing, ServedState::Following, ServedState::Unverified] {
        assert_eq!(state(on_its_way), (Degraded, [0, 1, 0, 0]), "{on_its_way:?}");
    }
    let without_envoy = |change: &dyn Fn(&mut Facts)| {
        with(|facts| {
            facts.gateways[0].state.envoys = envoys(0, 0, 0);
            facts.outside.connected.clear();
            change(facts);
        })
    };
    let managed = |state: &str, serves: bool| {
        let envoy = Managed { state: state.into(), pid: None, serves };
        without_envoy(&|facts: &mut Facts| drop(facts.outside.managed.insert("infra/public".into(), envoy.clone())))
    };
    assert_eq!(managed("running", true), (Degraded, [0, 1, 0, 0]), "an Envoy that was connected goes on serving");
    assert_eq!(managed("running", false), (Down, [1, 0, 0, 0]), "a new Envoy has nothing to serve");
    assert_eq!(managed("waiting", true), (Down, [1, 0, 0, 0]));
    assert_eq!(with(|facts| facts.outside.unreachable = Some("it is gone".into())), (Degraded, [0, 0, 0, 1]));
    assert_eq!(without_envoy(&|facts| facts.outside.leads = false), (HealthVerdict::Healthy, [0, 0, 0, 0]));
    assert_eq!(without_envoy(&|facts| facts.gateways[0].listeners.clear()), (HealthVerdict::Healthy, [0, 0, 0, 0]));

    assert_eq!(with(|facts| facts.outside.input.read = false), (Degraded, [0, 0, 0, 1]));
    assert_eq!(with(|facts| facts.outside.input.failing = Some("refused".into())), (Degraded, [0, 0, 0, 1]));
    assert_eq!(with(|facts| facts.outside.store = Some("full".into())), (Degraded, [0, 0, 0, 1]));
    let file = FileProblem { of: "a.yaml:1:2".into(), is_read: true, message: "no".to_owned() };
    assert_eq!(with(|facts| facts.outside.input.files.push(file.clone())), (Degraded, [0, 0, 0, 1]));
}

#[test]
fn a_file_that_is_missing_is_not_one_that_does_not_parse() {
    let problem = |of: &str, is_read| {
        let mut facts = facts();
        facts.outside.input.files.push(FileProblem { of: of.into(), is_read, message: "no".to_owned() });
        let problem = judge(&facts).inputs.problems.remove(0);
        (problem.reason, problem.next)
    };
    assert_eq!(problem("a.yaml:1:2", true), ("Unparsable".to_owned(), "holdfast check a.yaml".to_owned()));
    assert_eq!(problem("a.yaml", false), ("Unreadable".to_owned(), "ls -l a.yaml".to_owned()));
}

/// The Envoy `one` of the Gateway does not answer.
fn not_answering(is_connected: bool, is_silent: bool) -> BTreeMap<Arc<str>, BTreeMap<Arc<str>, NotAnswering>> {
    let envoy = NotAnswering { since: Moment(TEN), is_connected, is_silent };
    [("infra/public".into(), [("one".into(), envoy)].into())].into()
}

#[test]
fn an_envoy_from_which_nothing_comes_is_an_outage_unless_another_one_answers() {
    let health = |connected, is_connected, change: &dyn Fn(&mut Facts)| {
        let mut facts = facts();
        facts.gateways[0].state.envoys = EnvoyCounts { acknowledged: connected, ..EnvoyCounts::default() };
        facts.outside.connected = [("infra/public".into(), connected)].into();
        facts.outside.not_answering = not_answering(is_connected, true);
        change(&mut facts);
        judge(&facts)
    };
    for (connected, is_connected) in [(1, true), (0, false)] {
        let health = health(connected, is_connected, &|_| ());
        let finding = &health.outages[0];
        assert_eq!(counts(&health), (HealthVerdict::Down, [1, 0, 0, 0]));
        assert_eq!((finding.since, &finding.served[0].gets), (Some(Moment(TEN)), &Gets::NoResponse));
        assert_eq!(finding.message, "Envoy one does not answer: requests to 127.0.0.1:8080 probably get no response");
        assert_eq!(finding.next, "/debug/envoys");
        assert_eq!(health.gateways[0].envoys.pending, connected, "what it acknowledged is not known to be served");
    }
    for (connected, is_connected) in [(2, true), (1, false)] {
        let health = health(connected, is_connected, &|_| ());
        assert_eq!(counts(&health), (HealthVerdict::Degraded, [0, 1, 0, 0]), "{connected}");
        assert_eq!(health.gateways[0].envoys.pending, usize::from(is_connected));
    }
    let follower = health(1, true, &|facts| facts.outside.leads = false);
    assert_eq!(counts(&follower), (HealthVerdict::Degraded, [0, 1, 0, 0]), "another replica may have another Envoy");
    let manage = |facts: &mut Facts| {
        let envoy = Managed { state: "running".into(), pid: Some(17), serves: true };
        facts.outside.managed.insert("infra/public".into(), envoy);
    };
    let beside = health(0, false, &manage);
    assert_eq!(beside.outages[0].next, "/debug/envoys", "the process of the managed Envoy is another one");
    let managed = health(0, false, &|facts| {
        manage(facts);
        let silent = facts.outside.not_answering.values_mut();
        silent.for_each(|nodes| *nodes = [("infra-public-managed".into(), nodes["one"])].into());
    });
    assert_eq!(counts(&managed), (HealthVerdict::Down, [1, 0, 0, 0]), "it does not go on serving");
    assert!(managed.outages[0].next.starts_with("kill -CONT 17"), "{}", managed.outages[0].next);
    let elsewhere = health(1, true, &|facts| {
        let silent = std::mem::take(&mut facts.outside.not_answering);
        facts.outside.not_answering = silent.into_values().map(|envoys| ("infra/other".into(), envoys)).collect();
    });
    assert_eq!(counts(&elsewhere), (HealthVerdict::Healthy, [0, 0, 0, 0]), "it is an Envoy of another Gateway");
}

#[test]
fn kinds_that_nothing_needs_may_be_absent_and_those_without_which_nothing_is_served_may_not() {
    let problem = |of: &str, why| WatchProblem { of: of.into(), why, message: "it is so".into() };
    let kinds = |kinds: Vec<WatchProblem>| {
        let mut facts = facts();
        facts.outside.input.kubernetes = true;
        facts.outside.input.kinds = kinds;
        let health = judge(&facts);
        (counts(&health).1[3], health.inputs.not_installed.len())
    };
    let absent = |names: &[&str]| names.iter().map(|name| problem(name, Why::NotServed)).collect::<Vec<_>>();
    let gateways = ["gateway.networking.k8s.io/GatewayClass", "gateway.networking.k8s.io/Gateway"];
    let proxies = ["projectcontour.io/HTTPProxy", "gateway.kgateway.dev/TrafficPolicy"];
    assert_eq!(kinds(absent(&proxies)), (0, 2));
    assert_eq!(kinds(absent(&gateways)), (0, 2), "HTTPProxies alone");
    assert_eq!(kinds(absent(&[gateways.as_slice(), &proxies].concat())), (1, 0), "one cause is one problem");
    for why in [Why::Unlisted, Why::Failing, Why::Doubted, Why::Denied, Why::Removed, Why::TooMany] {
        assert_eq!(kinds(vec![problem(gateways[1], why)]), (1, 0), "{why:?}");
    }
    for why in [Why::Unlisted, Why::Failing] {
        let lost = with(|facts| {
            facts.outside.input.kubernetes = true;
            facts.outside.input.failing = Some("refused".into());
            facts.outside.input.kinds = gateways.iter().map(|kind| problem(kind, why)).collect();
        });
        assert_eq!(lost, (HealthVerdict::Degraded, [0, 0, 0, 1]), "the API server is the one problem: {why:?}");
    }
}

#[test]
fn what_clients_get_is_explained_by_the_objects_behind_it_or_by_itself() {
    let (route, policy) = (identity("HTTPRoute", "shop", "cart"), identity("TrafficPolicy", "shop", "guard"));
    let mut facts = facts();
    // A warning about the route explains nothing.
    facts.found.push(found(route.clone(), "spec.rules[0].x", Class::Ignored, "UnknownField", "it is unknown"));
    facts.found.push(found(policy.clone(), "spec.extAuth", Class::Referential, "NotFound", "it is missing"));
    facts.effects.push(effect(route.clone(), "rules[0]", Gets::Status { status: 500 }, &[&policy]));
    let health = judge(&facts);
    assert_eq!(counts(&health), (HealthVerdict::Down, [1, 0, 1, 0]));
    assert_eq!(health.outages[0].objects[0].object, policy);
    assert_eq!(health.outages[0].served[0].object, route);

    facts.found.remove(1);
    let health = judge(&facts);
    assert_eq!(counts(&health), (HealthVerdict::Down, [1, 0, 1, 0]));
    assert_eq!((&*health.outages[0].reason, &health.outages[0].objects[0].object), ("Closed", &route));
}

#[test]
fn a_rule_that_answers_an_error_is_an_outage_and_one_that_goes_back_is_none() {
    let route = identity("HTTPRoute", "shop", "cart");
    let mut facts = facts();
    for rule in ["rules[0]", "rules[1]"] {
        let field = format!("spec.{rule}.matches[0].path");
        facts.found.push(found(route.clone(), &field, Class::Invalid, "UnsupportedValue", rule));
    }
    facts.effects.push(effect(route.clone(), "rules[0]", Gets::Status { status: 404 }, &[&route]));
    let last_valid = Gets::LastValid { generation: 4, since: Moment(TEN), except: BTreeSet::new() };
    facts.effects.push(effect(route.clone(), "rules[1]", last_valid, &[&route]));
    let health = judge(&facts);
    assert_eq!(counts(&health), (HealthVerdict::Down, [1, 1, 0, 0]));
    assert_eq!(health.outages[0].message, "rules[0]");
    assert_eq!(health.degraded[0].message, "rules[1]");
}

#[test]
fn a_namespace_sees_its_own_and_what_affects_it_and_a_gateway_what_is_at_it() {
    let health = judge(&broken_shop());
    assert_eq!(counts(&health.clone().of_namespace("shop")).1, [1, 1, 0, 1]);
    assert_eq!(counts(&health.clone().of_namespace("office")), (HealthVerdict::Degraded, [0, 0, 1, 1]));
    assert_eq!(counts(&health.clone().of_gateway("infra/public")).1, [1, 1, 1, 1]);
    let other = health.clone().of_gateway("infra/other");
    assert_eq!((counts(&other).1, other.gateways.len()), ([0, 0, 0, 1], 0));
    let namespaces: Vec<_> = health.objects_by_namespace().into_iter().collect();
    assert_eq!(
        namespaces,
        [
            ((Severity::Outage, Arc::from("shop")), 2),
            ((Severity::Degraded, Arc::from("shop")), 1),
            ((Severity::Warning, Arc::from("office")), 1)
        ]
    );
}

#[test]
fn a_namespace_sees_what_is_wrong_with_the_envoys_of_its_gateways_and_names_are_known() {
    let mut facts = facts();
    facts.gateways[0].state.envoys = EnvoyCounts::default();
    facts.outside.connected.clear();
    let mut health = judge(&facts);
    health.namespaces.insert("shop".into(), BTreeSet::from([Arc::from("infra/public")]));
    health.namespaces.insert("office".into(), BTreeSet::new());
    assert_eq!(counts(&health.clone().of_namespace("shop")), (HealthVerdict::Down, [1, 0, 0, 0]));
    assert_eq!(counts(&health.clone().of_namespace("office")), (HealthVerdict::Healthy, [0, 0, 0, 0]));
    assert_eq!(health.known_namespaces(), BTreeSet::from(["infra", "office", "shop"]));
    assert_eq!(health.known_gateways(), BTreeSet::from(["infra/public".to_owned()]));
}

#[test]
fn what_clients_get_of_a_last_valid_version_names_its_field_once_and_its_generation() {
    let route = identity("HTTPRoute", "shop", "cart");
    let mut facts = facts();
    let mut of_last = effect(route, "rules[0]", Gets::Status { status: 500 }, &[]);
    of_last.message = "spec.rules[0].backendRefs[0]: Service b/echo: no ReferenceGrant permits it".into();
    of_last.version = Some(4);
    facts.effects.push(of_last);
    let finding = &judge(&facts).outages[0];
    let (subject, message) = (&finding.objects[0], "Service b/echo: no ReferenceGrant permits it");
    assert_eq!((&*subject.field, subject.generation), ("spec.rules[0].backendRefs[0]", Some(4)));
    assert_eq!(finding.message, format!("{message} (in generation 4, the last valid version, which is served)"));
    assert_eq!((&*finding.served[0].section, finding.served[0].generation), ("rules[0]", Some(4)));
}

#[test]
fn a_part_of_a_last_valid_version_belongs_to_the_same_problem_and_not_to_the_desired_part_of_its_index() {
    let route = identity("HTTPRoute", "shop", "cart");
    let mut facts = facts();
    let mut of_last = effect(route.clone(), "rules[0]", Gets::Status { status: 500 }, &[]);
    of_last.message = "spec.rules[0].backendRefs[0].name: Service shop/old does not exist".into();
    of_last.version = Some(4);
    facts.effects.push(of_last);
    let regex = found(route.clone(), "spec.rules[0].matches[0].path.value", Class::Invalid, "Invalid", "missing ]");
    let field = "spec.rules[1].backendRefs[0].name";
    let missing = found(route, field, Class::Referential, "BackendNotFound", "Service shop/old does not exist");
    facts.found = vec![regex.clone(), missing];
    let at_fault = |facts: &Facts| -> Vec<(String, Option<i64>)> {
        let outages = judge(facts).outages.into_iter();
        let explained = outages.filter(|finding| finding.served.iter().any(|served| served.generation == Some(4)));
        explained.flat_map(|finding| finding.objects).map(|subject| (subject.field, subject.generation)).collect()
    };
    assert_eq!(at_fault(&facts), [(field.to_owned(), Some(5))]);
    facts.found = vec![regex];
    assert_eq!(at_fault(&facts), [("spec.rules[0].backendRefs[0].name".to_owned(), Some(4))]);
}

#[test]
fn faults_are_dated_by_the_ledger_where_that_knows_more() {
    let mut facts = broken_shop();
    let mut ledger = holdfast_api::ledger::Ledger::default();
    ledger.observe(judge::present(&facts), Moment(TEN - 3600));
    facts.outside.ledger = Arc::new(ledger);
    facts.found.iter_mut().for_each(|found| found.since = None);
    let health = judge(&facts);
    assert_eq!(health.outages[0].since, Some(Moment(TEN - 3600)));
    let key: ObjectKey = identity("HTTPRoute", "shop", "cart").key();
    assert_eq!(facts.outside.ledger.began(&key, Some(5), false, TEN), TEN - 3600);
    assert_eq!(facts.outside.ledger.began(&identity("HTTPRoute", "shop", "new").key(), Some(1), false, TEN), TEN);
}

#[test]
fn a_problem_that_follows_from_another_is_a_part_of_it_and_causes_in_a_circle_are_reported() {
    let of = |name: &str| identity("TrafficPolicy", "shop", name);
    let of_class = |name: &str, cause: Option<&str>, class| ObjectProblem {
        cause: cause.map(|cause| of(cause).key()),
        ..found(of(name), "spec.x", class, "Invalid", name)
    };
    let invalid = |name: &str, cause: Option<&str>| of_class(name, cause, Class::Invalid);
    let causes = |problems: Vec<ObjectProblem>| {
        let health = judge(&Facts { found: problems, ..facts() });
        let name = |name: &Arc<str>| name.to_string();
        let all = health.outages.iter().chain(&health.warnings).map(|finding| {
            let affected = finding.affected.iter().map(|object| name(&object.name)).collect::<Vec<_>>();
            (name(&finding.objects[0].object.name), affected.join(" "))
        });
        all.collect::<Vec<_>>()
    };
    let pair = |cause: &str, affected: &str| (cause.to_owned(), affected.to_owned());
    let chain = vec![invalid("a", None), invalid("b", Some("a")), invalid("c", Some("b"))];
    assert_eq!(causes(chain), [pair("a", "b c")]);
    assert_eq!(causes(vec![invalid("b", Some("gone"))]), [pair("b", "")], "a cause without a problem explains nothing");
    let circle = causes(vec![invalid("a", Some("b")), invalid("b", Some("a"))]);
    assert_eq!(circle.len(), 2, "nothing is silent: {circle:?}");
    let warned = vec![of_class("a", None, Class::Ignored), invalid("b", Some("a"))];
    assert_eq!(causes(warned), [pair("b", ""), pair("a", "")], "a warning is no cause");
    let conflict = |name: &str, cause: Option<&str>| of_class(name, cause, Class::Conflict);
    let both = vec![invalid("a", None), conflict("a", None), conflict("b", Some("a")), invalid("c", Some("a"))];
    let both =
        both.into_iter().enumerate().map(|(index, found)| ObjectProblem { reason: format!("R{index}"), ..found });
    assert_eq!(causes(both.collect()), [pair("a", "c"), pair("a", "b")]);
}

#[test]
fn a_problem_of_an_object_that_is_served_names_its_part() {
    let mut facts = facts();
    let route = identity("HTTPRoute", "shop", "cart");
    let lost = found(route, "spec.parentRefs[1]", Class::Referential, "NoMatchingParent", "it does not exist");
    facts.found.push(ObjectProblem { is_served: true, ..lost.clone() });
    let parts: Vec<_> =
        judge(&facts).degraded[0].served.iter().map(|part| (part.section.clone(), part.gets.clone())).collect();
    assert_eq!(parts, [(Arc::from("parentRefs[1]"), Gets::LeftOut)]);
    facts.found = vec![lost];
    assert_eq!(judge(&facts).outages[0].served, [], "nothing of it is served");
}

#[test]
fn a_route_that_another_kind_leaves_without_a_host_is_an_outage() {
    let mut facts = facts();
    let lost =
        found(identity("HTTPRoute", "shop", "pay"), "spec.parentRefs[0]", Class::Conflict, "HostnameConflict", "taken");
    facts.found.push(ObjectProblem { is_served: true, ..lost.clone() });
    assert_eq!(judge(&facts).outages, []);
    assert_eq!(judge(&facts).degraded[0].served[0].gets, Gets::LeftOut, "it is served at another parent");
    facts.found = vec![lost];
    assert_eq!((judge(&facts).outages.len(), judge(&facts).warnings.len()), (1, 0));
}

#[test]
fn a_certificate_that_is_not_valid_now_closes_nothing() {
    let mut facts = facts();
    let (secret, proxy) = (identity("Secret", "shop", "pay"), identity("HTTPProxy", "shop", "pay"));
    let expired = "the certificate has expired";
    facts.found = vec![
        found(secret.clone(), "data", Class::Invalid, "CertificateExpired", expired),
        ObjectProblem {
            cause: Some(secret.key()),
            ..found(proxy.clone(), "spec.virtualhost.tls.secretName", Class::Invalid, "CertificateExpired", expired)
        },
    ];
    let health = judge(&facts);
    assert_eq!(health.outages.len(), 1, "{health:#?}");
    let gets: Vec<_> = health.outages[0].served.iter().map(|served| (&*served.object.kind, &served.gets)).collect();
    assert_eq!(gets, [("HTTPProxy", &Gets::Untrusted)]);
    // The host is closed for another reason.
    facts.found.push(found(proxy.clone(), "spec.virtualhost.fqdn", Class::Invalid, "Other", "taken"));
    facts.effects.push(Effect {
        section: "virtualhost".into(),
        gets: Gets::Status { status: 500 },
        ..Effect::left_out(&proxy, "")
    });
    let health = judge(&facts);
    let closing = health.outages.iter().find(|finding| finding.reason == "Other").unwrap();
    assert_eq!(closing.served[0].gets, Gets::Status { status: 500 }, "{health:#?}");
    let dated = health.outages.iter().find(|finding| finding.reason == "CertificateExpired").unwrap();
    assert!(dated.served.iter().all(|served| served.gets == Gets::Untrusted), "{health:#?}");
}

#[test]
fn no_client_gets_the_certificate_of_an_http_proxy_without_a_gateway() {
    let mut facts = facts();
    let (secret, proxy) = (identity("Secret", "shop", "pay"), identity("HTTPProxy", "shop", "pay"));
    let expired = |object, cause| ObjectProblem {
        gateways: BTreeSet::new(),
        cause,
        ..found(object, "data", Class::Invalid, "CertificateExpired", "the certificate has expired")
    };
    facts.found = vec![expired(secret.clone(), None), expired(proxy, Some(secret.key()))];
    let health = judge(&facts);
    assert_eq!((health.outages.len(), health.warnings.len()), (0, 1), "{health:#?}");
    assert_eq!(health.warnings[0].served, []);
}

#[test]
fn an_http_proxy_without_a_place_is_an_outage() {
    let mut facts = facts();
    let lost = found(identity("HTTPProxy", "shop", "pay"), "spec.virtualhost", Class::Conflict, "NoPlace", "several");
    facts.found.push(lost.clone());
    assert_eq!((judge(&facts).outages.len(), judge(&facts).warnings.len()), (1, 0));
    facts.found = vec![ObjectProblem { is_served: true, ..lost }];
    assert_eq!((judge(&facts).outages.len(), judge(&facts).warnings.len()), (0, 1));
}
