//! The weighted backends of a rule.

use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::fault::{Fault, at};
use holdfast_envoy::features::Flaw;
use holdfast_envoy::model::WeightedBackend;
use holdfast_graph::{ObjectKey, Role};

use super::filters::{self, Filters, ReadFor};
use crate::backend_policy::backend::{self, Reference, Referrer, Sent};
use crate::reader::Reader;

/// Backends of one rule; same limit as in the CRD.
pub(crate) const BACKENDS_MAX: usize = 16;

/// The resolved backends of a rule.
#[derive(Default)]
pub(crate) struct Resolved {
    /// The backends with a weight above 0, in order; `backend` is unset for a missing one.
    pub(crate) backends: Vec<WeightedBackend>,
    /// The index of each of these backends, and its filters besides header changes.
    pub(crate) filters: Vec<(usize, Filters)>,
    /// The faults of references that are missing or not granted.
    pub(crate) faults: Vec<Fault>,
    /// A policy that closes one of the backends.
    pub(crate) policy: Option<ObjectKey>,
    /// The flaws of the references as written.
    pub(crate) flaws: Vec<Flaw>,
}

/// Resolves the backends of a rule (`rules[1]`). Filters are read for requests only.
pub(crate) fn resolve(
    route: &ObjectKey,
    section: &str,
    written: &[BackendRef],
    (sent, filters): (Sent, Option<ReadFor<'_>>),
    reader: &mut Reader<'_>,
) -> Resolved {
    let mut resolved = Resolved::default();
    if written.len() > BACKENDS_MAX {
        resolved.flaws.push(Flaw::new("backendRefs", format!("must have at most {BACKENDS_MAX} entries")));
    }
    for (index, reference) in written.iter().enumerate().take(BACKENDS_MAX) {
        let below = at("backendRefs", index);
        let weight = match holdfast_check::number::weight(reference.weight.unwrap_or(1).into()) {
            Ok(weight) => weight,
            Err(fault) => {
                resolved.flaws.push(Flaw::new(format!("{below}.weight"), fault));
                continue;
            }
        };
        let mut own = filters
            .map(|context| filters::of_backend(reference, context, &below, &mut resolved.flaws))
            .unwrap_or_default();
        let (request_headers, response_headers) =
            (std::mem::take(&mut own.request_headers), std::mem::take(&mut own.response_headers));
        let field = format!("spec.{section}.{below}");
        let referrer = Referrer { route, section, field: &field, role: Role::Requires, sent };
        let backend = match backend::resolve(&referrer, &plain(reference), reader) {
            Ok(backend) => Some(backend),
            Err(refused) => {
                resolved.faults.push(refused.fault);
                resolved.policy = resolved.policy.take().or(refused.policy);
                None
            }
        };
        if weight > 0 {
            resolved.filters.push((index, own));
            resolved.backends.push(WeightedBackend {
                backend,
                weight,
                request_headers: request_headers.into(),
                response_headers: response_headers.into(),
                host: None,
                cookies: Vec::new(),
            });
        }
    }
    // If all backendRefs have weight 0, no backend gets requests; they are answered as for a rule without backends.
    if !resolved.backends.is_empty() && resolved.flaws.is_empty() {
        let sum = holdfast_check::number::weight_sum(resolved.backends.iter().map(|backend| backend.weight));
        resolved.flaws.extend(sum.err().map(|fault| Flaw::new("backendRefs", fault)));
    }
    resolved
}

fn plain(reference: &BackendRef) -> Reference<'_> {
    Reference {
        group: reference.group.as_deref(),
        kind: reference.kind.as_deref(),
        namespace: reference.namespace.as_deref(),
        name: &reference.name,
        port: reference.port,
    }
}
