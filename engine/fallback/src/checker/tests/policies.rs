//! Plans with a missing policy, as a defect in the planner or in translation would leave them.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::policy::Policy;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::outcome::setting::PolicySettings;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::precedence::settings::Settings;
use holdfast_translate::route::RoutePlan;
use holdfast_xds::ResourceType;
use serde_json::{Value, json};

use super::spoilt::{is_about, objected, sent};
use super::{CART, cart};
use crate::checker::today::Today;
use crate::checker::{About, policies};
use crate::testing::plans::{Fallback, Plans};

fn good() -> Plans {
    Plans::of_policies(&mut |_| 0)
}

fn policy(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, "TrafficPolicy", namespace, name)
}

/// A configuration with a broken time limit in a policy, so that the last valid version of the policy is served.
fn broken() -> Plans {
    let mut plans = good();
    plans.edit(("TrafficPolicy", "shop", "cart"), "/spec/timeouts", json!({"request": "soon"}));
    let planned = plans.planned();
    assert_eq!(plans.objections(&planned), []);
    assert!(planned.0.overlay.objects.contains_key(&policy("shop", "cart")), "{planned:?}");
    assert!(planned.0.overlay.policies.contains_key(&policy("shop", "cart")));
    plans
}

/// Changes the settings of a policy.
fn with_policy_plan(plans: &Plans, key: &ObjectKey, change: impl FnOnce(PolicyPlan) -> PolicyPlan) -> Fallback {
    let mut fallback = plans.planned();
    let plan = change((**plans.translator.policy(key).unwrap()).clone());
    fallback.0.overlay.policies.insert(key.clone(), Arc::new(plan));
    fallback
}

#[test]
fn a_policy_without_settings() {
    for (namespace, name) in [("shop", "cart"), ("shop", "images"), ("infra", "all"), ("infra", "wild")] {
        let mut plans = good();
        let key = policy(namespace, name);
        let nothing = Arc::new(PolicySettings::new(key.clone(), Settings::new()));
        let mut fallback = with_policy_plan(&plans, &key, |plan| PolicyPlan { settings: nothing, ..plan });
        objected(&plans, &mut fallback, &key, About::Security);
        assert!(fallback.0.overlay.policies.get(&key).unwrap().unenforceable.is_some(), "{key}");
        assert!(sent(&mut plans, fallback, ResourceType::Route).contains("directResponse"));
    }
}

#[test]
fn a_policy_that_cannot_be_enforced_and_would_be_passed_over() {
    let mut plans = good();
    plans.edit(("TrafficPolicy", "infra", "all"), "/spec/basicAuth", json!({"secretRef": {"name": "nobody"}}));
    let key = policy("infra", "all");
    let mut fallback = with_policy_plan(&plans, &key, |plan| PolicyPlan { unenforceable: None, ..plan });
    objected(&plans, &mut fallback, &key, About::Security);
    assert!(!sent(&mut plans, fallback, ResourceType::Route).contains("service/shop/cart"));
}

#[test]
fn a_policy_that_would_come_back() {
    let plans = good();
    let key = policy("shop", "cart");
    let was = plans.translator.policy(&key).unwrap().clone();
    let mut plans = plans;
    plans.remove(&key);
    plans.translate();
    let mut fallback = plans.planned();
    fallback.0.overlay.policies.insert(key.clone(), was);
    objected(&plans, &mut fallback, &key, About::Existence);
    assert!(!fallback.0.overlay.policies.contains_key(&key));
}

#[test]
fn a_policy_that_would_count_as_missing() {
    let plans = good();
    let key = policy("shop", "cart");
    let mut fallback = plans.planned();
    fallback.0.overlay.hidden.insert(key.clone());
    objected(&plans, &mut fallback, &key, About::Security);
    assert!(fallback.0.overlay.policies.get(&key).unwrap().unenforceable.is_some());
}

/// Returns an earlier version with other content, and with the current targets.
fn earlier(plans: &Plans, spec: &Value) -> Arc<Object> {
    let today = plans.objects.get(&policy("shop", "cart")).unwrap();
    let Body::TrafficPolicy(written) = &today.body else { panic!("no policy") };
    let spec = Some(serde_json::from_value(spec.clone()).unwrap());
    let body = Body::TrafficPolicy(Arc::new(Policy { spec, targets: written.targets.clone(), ..Policy::default() }));
    Arc::new(Object { body, ..(**today).clone() })
}

#[test]
fn an_earlier_version_that_protects_less() {
    let acl = |cidr: &str| json!({"defaultAction": "deny", "rules": [{"cidrs": [cidr], "action": "allow"}]});
    let limit = json!({"local": {"tokenBucket": {"maxTokens": 1, "tokensPerFill": 1, "fillInterval": "1s"}}});
    let rows = [
        (json!({"acl": acl("10.0.0.0/8")}), true),
        (json!({"acl": acl("10.0.0.0/8"), "rateLimit": limit}), true),
        (json!({"acl": acl("0.0.0.0/0")}), false),
        (json!({}), false),
        (json!({"acl": acl("10.0.0.0/8"), "extAuth": {"disable": {}}}), false),
        (json!({"acl": acl("10.0.0.0/8"), "cors": {"allowOrigins": ["*"]}}), false),
    ];
    for (spec, may) in rows {
        let mut plans = broken();
        let key = policy("shop", "cart");
        let object = earlier(&plans, &spec);
        plans.last_valid.promote(&object, plans.now);
        let mut fallback = plans.planned();
        let plan = plans.translator.try_policy(&object, &plans.objects).unwrap();
        fallback.0.overlay.objects.insert(key.clone(), object);
        fallback.0.overlay.policies.insert(key.clone(), Arc::new(plan));
        let found = plans.objections(&fallback);
        assert_eq!(!is_about(&found, &key, About::Security), may, "{spec}: {found:?}");
        if !may {
            objected(&plans, &mut fallback, &key, About::Security);
            assert!(fallback.0.overlay.policies.get(&key).unwrap().unenforceable.is_some(), "{spec}");
        }
        // The planner checks the same with its own code.
        let planned = plans.planned();
        assert_eq!(plans.objections(&planned), []);
    }
}

#[test]
fn a_route_that_lost_its_policies() {
    let plans = good();
    let world = plans.world();
    let today = Today::new(&world);
    let object = plans.objects.get(&cart()).unwrap();
    let served = plans.translator.route(&cart()).unwrap();
    let check = |plan: &RoutePlan| policies::of_route(object, plan, &Overlay::default(), &world, &today);
    assert_eq!(check(served), []);
    let lost = RoutePlan { merged: Default::default(), ..(**served).clone() };
    assert_eq!(check(&lost).len(), served.routes.len());
    let mut incomplete = (**served).clone();
    incomplete.merged.values_mut().for_each(|(_, origins)| drop(origins.remove("acl")));
    let found = check(&incomplete);
    assert!(found.iter().all(|objection| objection.why.contains("acl")) && !found.is_empty(), "{found:?}");
}

#[test]
fn headers_taken_away_before_backends() {
    let filters = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-user"]}}]);
    let backend = json!([{"name": "cart", "port": 80, "filters": filters}]);
    let mut plans = super::broken();
    plans.edit(CART, "/spec/rules/0/backendRefs", backend);
    // The stand-in version does not remove the header before its backend, as the current rule requires.
    let planned = plans.planned();
    assert!(!planned.0.overlay.objects.contains_key(&cart()), "the planner knows");
    let mut spoilt = plans.planned();
    let last = super::spoilt::last_valid(&plans);
    spoilt.0.overlay.closed.remove(&cart());
    spoilt.0.overlay.objects.insert(cart(), last);
    assert!(is_about(&plans.objections(&spoilt), &cart(), About::Security), "the checker knows");
}
