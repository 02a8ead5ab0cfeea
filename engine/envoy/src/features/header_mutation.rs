//! Header changes by a filter; request headers change before the backend is selected.

use std::sync::Arc;

use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutation as Mutation;
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::Action;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{HeaderMutationPerRoute, Mutations};

use super::headers::HeaderEdits;

/// Header changes of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderMutations {
    /// Changes to request headers.
    pub request: HeaderEdits,
    /// Changes to response headers.
    pub response: HeaderEdits,
}

impl HeaderMutations {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> HeaderMutationPerRoute {
        HeaderMutationPerRoute {
            mutations: Some(Mutations {
                request_mutations: mutations(&self.request),
                response_mutations: mutations(&self.response),
                ..Default::default()
            }),
        }
    }
}

/// Returns Envoy's mutations of the headers of one direction.
pub(super) fn mutations(edits: &HeaderEdits) -> Vec<Mutation> {
    let remove = edits.remove.iter().map(|name: &Arc<str>| Action::Remove(name.to_string()));
    let add = edits.to_add().into_iter().map(Action::Append);
    remove.chain(add).map(|action| Mutation { action: Some(action) }).collect()
}
