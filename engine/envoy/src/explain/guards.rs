//! Filters that may answer a request before its route does, by the settings of the route, the virtual host and the
//! route configuration; the settings at the closest level win. Conditions on requests are evaluated. Of the other
//! filters only the kinds are known: their answers depend on credentials, on services or on other requests.

use std::collections::{BTreeSet, HashMap};

use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Policy, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::answer::ExplainedAnswer;
use super::condition::{self, ConditionValue, KnownRequest};
use super::matching::ReceivedRequest;
use crate::encode::names;
use crate::features::filters::Filter;
use crate::inspect::guards;

/// Settings of filters at three levels, the closest first.
pub(super) type Levels<'a> = [&'a HashMap<String, Any>; 3];

/// The kinds of filters that may answer a request before its route does, except conditions, which are evaluated.
pub(super) fn may_answer(levels: Levels<'_>) -> BTreeSet<String> {
    let mut kinds = guards::in_force(levels.map(guards::encoded));
    for evaluated in [Filter::Connection, Filter::Rbac] {
        kinds.remove(evaluated.name());
    }
    kinds.into_iter().map(|kind| short(&kind).to_owned()).collect()
}

/// Returns the short name of a kind of filter: `acl`, or `ext_authz`.
fn short(kind: &str) -> &str {
    let kind = names::kind_of_filter(kind);
    kind.strip_prefix("holdfast.dev/").or_else(|| kind.strip_prefix("envoy.filters.http.")).unwrap_or(kind)
}

/// The result of the conditions on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPermission {
    /// The conditions allow the request, or there is none.
    Allowed,
    /// The conditions deny the request.
    Denied,
    /// The conditions depend on what is not known, such as the client's address.
    Unknown,
}

impl RequestPermission {
    /// Returns the answer to a request with this verdict, given the answer of its route.
    pub(super) fn applied(self, answer: ExplainedAnswer) -> ExplainedAnswer {
        match self {
            RequestPermission::Allowed => answer,
            RequestPermission::Denied => {
                let why = "the conditions of a policy (rbac) do not allow the request".to_owned();
                ExplainedAnswer::Rejected { status: 403, why, grpc_status: None }
            }
            RequestPermission::Unknown => {
                let why = "the conditions of a policy (rbac) depend on what is not evaluated here, such as the client's \
                           address or certificate";
                ExplainedAnswer::Unknown { why: why.to_owned() }
            }
        }
    }
}

/// Evaluates the conditions on a request. `has_its_headers`: no filter before the conditions may
/// have changed its headers. A preflight request of CORS is answered before.
pub(super) fn verdict(levels: Levels<'_>, request: &ReceivedRequest, has_its_headers: bool) -> RequestPermission {
    let request = KnownRequest { request, has_its_headers: has_its_headers && !request.is_preflight() };
    let found = levels.iter().find_map(|level| level.get(Filter::Rbac.name()));
    let Some(found) = found.filter(|found| found.type_url.ends_with(".RBACPerRoute")) else {
        return RequestPermission::Allowed;
    };
    let Ok(settings) = RbacPerRoute::decode(&*found.value) else { return RequestPermission::Unknown };
    let Some(rules) = settings.rbac.and_then(|rbac| rbac.rules) else { return RequestPermission::Allowed };
    let Rules { action, policies, .. } = rules;
    if action != i32::from(Action::Allow) {
        return RequestPermission::Unknown;
    }
    let results: Vec<Option<bool>> = policies.values().map(|policy| matches(policy, request)).collect();
    let is_preflight = request.request.is_preflight();
    match () {
        () if results.contains(&Some(true)) => RequestPermission::Allowed,
        () if results.contains(&None) || is_preflight => RequestPermission::Unknown,
        () => RequestPermission::Denied,
    }
}

/// Returns whether a policy that is for every request and client has a condition that is true; `None` if it is not known.
fn matches(policy: &Policy, request: KnownRequest<'_>) -> Option<bool> {
    let is_for_all = policy.permissions.iter().any(|permission| permission.rule == Some(Rule::Any(true)))
        && policy.principals.iter().any(|principal| principal.identifier == Some(Identifier::Any(true)));
    let condition = policy.condition.as_ref().filter(|_| is_for_all)?;
    match condition::value(condition, request) {
        ConditionValue::Bool(value) => Some(value),
        // Envoy treats a condition that cannot be evaluated as false.
        ConditionValue::Error => Some(false),
        _ => None,
    }
}
