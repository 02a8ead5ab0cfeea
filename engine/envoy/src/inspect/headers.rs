//! Headers that a route hides: those of clients, which no backend receives, and those of responses, which no client
//! receives.
//!
//! A header that is overwritten is hidden as well. The host header has the name [`HOST`] here: it is hidden where the
//! host is rewritten.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::envoy::config::route::v3::route::Action as EncodedAction;
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterSpecifier, HostRewriteSpecifier};

use crate::features::headers::HeaderEdits;
use crate::model::{Action, Route};

/// The name of the header with the host.
const HOST: &str = "host";

/// Names in lower case.
type HeaderNames = BTreeSet<String>;

/// Returns the headers of clients that no backend of a route of the model receives.
pub(super) fn hidden_from_backends(route: &Route) -> HeaderNames {
    let (of_backends, is_host_rewritten) = match &route.action {
        Action::Forward(forward) => {
            let own = forward.backends.iter().map(|backend| edited(&backend.request_headers, backend.host.is_some()));
            (common(own), forward.rewrite.host.is_some())
        }
        Action::Respond(_) | Action::Redirect(_) => (HeaderNames::new(), false),
    };
    let mut names = edited(&route.request_headers, is_host_rewritten);
    names.extend(of_backends);
    names
}

/// Returns the headers of clients that no backend of an encoded route receives.
pub(super) fn hidden_by(route: &envoy::Route) -> HeaderNames {
    let (removed, set) = (&route.request_headers_to_remove, &route.request_headers_to_add);
    let mut names = overwritten(removed, set);
    let Some(EncodedAction::Route(action)) = &route.action else { return names };
    // A host that is copied from another header is the client's own choice.
    let is_copied = matches!(action.host_rewrite_specifier, Some(HostRewriteSpecifier::HostRewriteHeader(_)));
    names.extend((action.host_rewrite_specifier.is_some() && !is_copied).then(|| HOST.to_owned()));
    if let Some(ClusterSpecifier::WeightedClusters(weighted)) = &action.cluster_specifier {
        names.extend(common(weighted.clusters.iter().map(|cluster| {
            let mut own = overwritten(&cluster.request_headers_to_remove, &cluster.request_headers_to_add);
            own.extend(cluster.host_rewrite_specifier.is_some().then(|| HOST.to_owned()));
            own
        })));
    }
    names
}

/// Returns the headers of responses that a route of the model removes. A header that it overwrites may have any value in
/// another version.
pub(super) fn hidden_from_clients(route: &Route) -> impl Iterator<Item = &str> {
    route.response_headers.remove.iter().map(|name| &**name)
}

/// Returns whether an encoded route hides a header of responses.
pub(super) fn is_hidden_from_clients(route: &envoy::Route, name: &str) -> bool {
    let (removed, set) = (&route.response_headers_to_remove, &route.response_headers_to_add);
    overwritten(removed, set).contains(&name.to_ascii_lowercase())
}

fn edited(edits: &HeaderEdits, is_host_rewritten: bool) -> HeaderNames {
    let host = is_host_rewritten.then_some(HOST);
    edits.overwritten().chain(host).map(str::to_ascii_lowercase).collect()
}

/// Returns the names of headers of which these edits leave no earlier value.
fn overwritten(removed: &[String], added: &[HeaderValueOption]) -> HeaderNames {
    let overwrite = HeaderAppendAction::OverwriteIfExistsOrAdd;
    let set = added.iter().filter(|option| option.append_action() == overwrite);
    let set = set.filter_map(|option| option.header.as_ref()).map(|header| &header.key);
    removed.iter().chain(set).map(|name| name.to_ascii_lowercase()).collect()
}

/// Returns the names that are in all sets; none if there is no set.
fn common(sets: impl Iterator<Item = HeaderNames>) -> HeaderNames {
    sets.reduce(|known, own| known.intersection(&own).cloned().collect()).unwrap_or_default()
}
