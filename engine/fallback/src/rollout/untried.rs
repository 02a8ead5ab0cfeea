//! Content of the configuration of all Envoys that one Envoy has not accepted yet, and that others have.
//!
//! Such an Envoy tries new content after all others: it may refuse what it is sent beside the new content.

use holdfast_xds::ResourceType;

use super::Waiting;
use super::answerable::answerable;
use crate::scope::FallbackScope;

/// Resource types with parts of several objects.
pub(crate) const SHARED: [ResourceType; 2] = [ResourceType::Listener, ResourceType::Route];

/// Checks whether an Envoy has not accepted everything in the configuration of all Envoys that others accepted.
pub(crate) fn has_untried_of_everyone(scope: &FallbackScope, node: &str) -> bool {
    let Some(everyone) = scope.configurations.everyone.as_ref().filter(|_| !scope.members.is_remote(node)) else {
        return false;
    };
    let shared = SHARED.into_iter().flat_map(|kind| everyone.of(kind).values().map(move |known| (kind, known)));
    let untried = shared.filter(|(kind, resource)| {
        !scope.hold.unavailable.lacks(node, *kind, &resource.name, resource.version)
            && scope.evidence.has_untried_at(node, *kind, resource)
    });
    let untried: Waiting = untried.map(|(kind, resource)| ((kind, resource.name.clone()), resource.version)).collect();
    !answerable(&scope.hold, node, untried, everyone).is_empty()
}
