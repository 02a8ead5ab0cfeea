//! The weighted backends of a rule.

use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::fault::at;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::model::WeightedBackend;
use holdfast_graph::{ObjectKey, Role};

use super::filters;
use super::rule::Resolved;
use crate::backend_policy::backend::{self, Reference, Referrer, Sent};
use crate::reader::Reader;

/// Backends of one rule; same limit as in the CRD.
pub(crate) const BACKENDS_MAX: usize = 16;

/// Resolves the backends of a rule (`rules[1]`).
pub(crate) fn resolve(
    route: &ObjectKey,
    section: &str,
    written: &[BackendRef],
    sent: Sent,
    reader: &mut Reader<'_>,
) -> Resolved {
    let mut resolved = Resolved { backends: Vec::new(), faults: Vec::new(), policy: None, flaws: Vec::new() };
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
        let (request_headers, response_headers) = filters::of_backend(reference, &below, &mut resolved.flaws);
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
