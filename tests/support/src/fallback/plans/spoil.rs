//! Wrong plans: plans of a planner with a defect.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::ProxyEntry;
use holdfast_api::apis::contour::route::ProxyRoute;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::object::Object;
use holdfast_test_objects::mutate::Choose;
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::outcome::setting::PolicySettings;
use holdfast_translate::precedence::settings::Settings;

use super::{Fallback, Plans, edits};

impl Plans {
    /// Makes a plan wrong in up to three places.
    pub fn spoil(&self, fallback: &mut Fallback, choose: &mut Choose<'_>) {
        let overlay = &mut fallback.0.overlay;
        for _ in 0..=choose(3) {
            let Some(object) = edits::pick(&self.history, choose) else { return };
            let today = self.objects.get(&object.key);
            let object: Arc<Object> = match (choose(5), today) {
                // Any earlier version of an object: deleted, with another UID, or with other claims.
                (0 | 1, _) | (_, None) => object.clone(),
                // Earlier content with today's name and labels.
                (2, Some(today)) => Arc::new(Object { body: object.body.clone(), ..(**today).clone() }),
                // Unproven rules with today's claims.
                (3, Some(today)) => Arc::new(Object { body: shuffled(&today.body), ..(**today).clone() }),
                _ => {
                    overlay.hidden.insert(object.key.clone());
                    overlay.objects.remove(&object.key);
                    continue;
                }
            };
            overlay.hidden.remove(&object.key);
            if let Some(plan) = self.translator.policy(&object.key) {
                let nothing = || Arc::new(PolicySettings::new(object.key.clone(), Settings::new()));
                let altered = match choose(4) {
                    // No settings.
                    0 => PolicyPlan { settings: nothing(), unenforceable: None, ..(**plan).clone() },
                    // An unenforceable policy that is served as if it were enforceable.
                    1 => PolicyPlan { unenforceable: None, ..(**plan).clone() },
                    // Earlier settings.
                    2 => match self.translator.try_policy(&object, &self.objects) {
                        Some(altered) => altered,
                        None => continue,
                    },
                    _ => {
                        overlay.policies.remove(&object.key);
                        overlay.objects.insert(object.key.clone(), object);
                        continue;
                    }
                };
                overlay.policies.insert(object.key.clone(), Arc::new(altered));
            }
            overlay.objects.insert(object.key.clone(), object);
        }
    }
}

/// Reverses the order of the rules.
fn shuffled(body: &Body) -> Body {
    match body {
        Body::HttpRoute(route) => {
            let mut route = (**route).clone();
            route.rules.reverse();
            Body::HttpRoute(Arc::new(route))
        }
        Body::GrpcRoute(route) => {
            let mut route = (**route).clone();
            route.rules.reverse();
            Body::GrpcRoute(Arc::new(route))
        }
        Body::HttpProxy(proxy) => {
            let mut proxy = (**proxy).clone();
            proxy.routes.reverse();
            Body::HttpProxy(Arc::new(proxy))
        }
        other => other.clone(),
    }
}

/// Returns the matches of every rule, with the rule's name, as text.
pub(super) fn matches(body: &Body) -> Vec<String> {
    match body {
        Body::HttpRoute(route) => texts(&route.rules, |rule| format!("{:?} {:?}", rule.name, rule.matches)),
        Body::GrpcRoute(route) => texts(&route.rules, |rule| format!("{:?} {:?}", rule.name, rule.matches)),
        Body::HttpProxy(proxy) => {
            let one = |entry: &ProxyEntry<ProxyRoute>| match entry {
                ProxyEntry::Decoded(route) => format!("{:?}", route.conditions),
                ProxyEntry::Broken { why, .. } => why.to_string(),
            };
            proxy.routes.iter().map(one).collect()
        }
        _ => Vec::new(),
    }
}

fn texts<R>(rules: &[RuleEntry<R>], text: impl Fn(&R) -> String) -> Vec<String> {
    let one = |entry: &RuleEntry<R>| match entry {
        RuleEntry::Decoded(rule) => text(rule),
        RuleEntry::Broken { why, .. } => why.to_string(),
    };
    rules.iter().map(one).collect()
}
