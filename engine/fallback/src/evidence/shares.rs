//! Shares of objects in clusters, as contents that can be refused.

use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Version;

/// Returns the share of an object in a cluster, as a content that can be refused.
pub(crate) fn share(cluster: Version, key: &ObjectKey) -> Content {
    let text = format!("share in {cluster} of {key}");
    Content(*Version::of(text.as_bytes()).as_bytes())
}
