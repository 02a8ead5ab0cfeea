//! Notices about Envoys for the deciding code.

use crate::{Answer, EnvoyId};

/// An event of an Envoy.
///
/// Notices of one stream are in order: first that it connected, then its answers, at last that it disconnected. Each
/// stream produces its own pair. An Envoy that reconnects before its old stream is known to be broken has two streams
/// for some time, so that it connects twice before it disconnects for the first time: to know whether an Envoy is
/// connected, count the notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A stream began. True where its first message reports versions: the Envoy already has a configuration. (An Envoy
    /// that has only resources of types other than the first requested one reports them later; then only its stream
    /// knows.)
    Connected(EnvoyId, bool),
    /// A stream ended, for any reason.
    Disconnected(EnvoyId),
    /// An Envoy answered a response.
    Answered(Answer),
}
