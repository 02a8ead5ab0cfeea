//! Test scopes with policies at every level.

use holdfast_test_objects::mutate::Choose;
use serde_json::{Value, json};

use super::{Plans, SAMPLE, edits};

/// Policies of a route, a rule, a Gateway and a listener.
const POLICIES: &str = include_str!("policies.yaml");

impl Plans {
    /// Creates the sample with policies at every level, all last valid, with random feature gates.
    pub fn of_policies(choose: &mut Choose<'_>) -> Self {
        let settings = Self::chosen(choose);
        let mut originals = holdfast_test_objects::documents(SAMPLE);
        originals.push(edits::secret("infra", "wildcard", 0));
        originals.push(edits::secret("shop", "cart", 1));
        originals.extend(holdfast_test_objects::documents(POLICIES));
        Self::of(originals, settings)
    }
}

/// Edits of a policy: paths and new values.
pub(super) fn values() -> Vec<(&'static str, Value)> {
    let acl = |cidr: &str| json!({"defaultAction": "deny", "rules": [{"cidrs": [cidr], "action": "allow"}]});
    vec![
        ("/spec/timeouts", json!({"request": "soon"})),
        ("/spec/timeouts", json!({"request": "4s"})),
        ("/spec/acl", acl("10.0.0.0/99")),
        ("/spec/acl", acl("192.0.2.0/24")),
        ("/spec/basicAuht", json!({})),
        ("/spec/basicAuth", json!({"secretRef": {"name": "nobody"}})),
        ("/spec/extAuth", json!({"disable": {}})),
        ("/spec/retry", json!({"attempts": 0, "retryOn": ["nothing"]})),
        ("/spec/headerModifiers", json!({"request": {"remove": ["x-other"]}})),
        ("/spec/headerModifiers", json!({"request": {"set": [{"name": "x-user", "value": "checked"}]}})),
        ("/spec/transformation", json!({"request": {"set": [{"name": "x-user", "value": "checked"}]}})),
        ("/spec/rateLimit", json!({"local": {"tokenBucket": {"maxTokens": 0, "fillInterval": "1s"}}})),
        ("/spec/rateLimit", json!({})),
        ("/spec/targetRefs/0/name", json!("nobody")),
        ("/spec/targetRefs/0/sectionName", json!("rest")),
        ("/spec", json!("none")),
        ("/metadata/annotations", json!({"holdfast.dev/fallback": "last-valid"})),
    ]
}
