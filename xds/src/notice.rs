//! What is told of Envoys to who decides.

use crate::{Answer, EnvoyId};

/// What happened to an Envoy.
///
/// Notices of one stream come in order: first that it connected, then its answers, at last that it disconnected. Each
/// stream gives its own pair. An Envoy that reconnects before its old stream is known to be broken has two streams for a
/// while, so that it connects twice before it disconnects for the first time: who wants to know whether it is there
/// counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A stream began. True where its first message reports versions: the Envoy has a configuration already. (One that
    /// has resources of other types only than it asks for first says so later, and is known by that only to its stream.)
    Connected(EnvoyId, bool),
    /// A stream ended, however it ended.
    Disconnected(EnvoyId),
    /// An Envoy answered to what it was sent.
    Answered(Answer),
}
