//! Mistakes that the checks of Holdfast cannot find, and a real Envoy refuses.
//!
//! Holdfast finds the mistakes of users that are known to it before any Envoy does, so stories that need a refusal add a
//! mistake on the way to Envoy: a [relay] between Holdfast and an Envoy [changes](spoil) resources with a marker in their
//! content. The refusal, its message and its place are Envoy's own. The marker is written by the story, so that an edit
//! adds or removes the mistake, as with mistakes of users; Holdfast knows nothing of it.

pub mod relay;
mod spoil;
pub mod start;

/// Response header that marks a route; its value is the name of the mistake.
pub const HEADER: &str = "x-story-mistake";
/// Mistakes of one route: an invalid regex; a negative timeout; a header with a line break, which Envoy detects before
/// it applies anything; a rewrite by an invalid regex; weighted clusters without a cluster.
pub const ALONE: [&str; 5] = ["regex", "duration", "header", "rewrite", "weights"];
/// Mistake of a pair: each of two routes of one host is valid, and both together are refused, since the host's name is
/// added twice.
pub const PAIR: &str = "pair";
/// Text before a certificate that gets the key of another certificate.
pub const KEY: &str = "story-mistake: key";
/// In the name of a Service: its cluster is refused with HTTP/2. In the name of a listener with TLS: its filter chain
/// is refused. In a filter that calls an external service, or that forwards connections or
/// datagrams: the filter is refused.
pub const NAME: &str = "story-mistake";
