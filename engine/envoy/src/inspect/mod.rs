//! Reading of encoded resources: published and held bytes are decoded again, for questions about them and for closing
//! what they serve.
//!
//! The callers pass and receive values of the model, contents and bytes, never messages of Envoy. Nothing here decides
//! what is closed, and bytes that cannot be decoded are never an error: they contain nothing.

pub mod chain_parts;
pub mod chains;
pub mod clusters;
pub mod guards;
mod headers;
pub mod hosts;
pub mod references;
pub mod routes;

use holdfast_graph::Content;
use holdfast_xds::Version;

/// Returns the identity of encoded content: the hash of its bytes.
fn content(bytes: &[u8]) -> Content {
    Content(*Version::of(bytes).as_bytes())
}
