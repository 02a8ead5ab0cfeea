//! Who may speak with the server, as data: what a client shows, and what is made of it.
//!
//! Who a client is gets decided once for each RPC, from what its connection and the headers of the RPC prove, before any
//! message is read. What it says of itself is compared with that and never chooses anything.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

/// What a client shows when it begins an RPC.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The chain of the certificate that its connection was opened with, its own first; empty where it showed none.
    ///
    /// It has the key of that certificate. Whether the certificate is still good is asked anew: connections live long.
    pub chain: &'a [CertificateDer<'static>],
    /// What stands behind `Bearer` in its `authorization` header.
    pub token: Option<&'a str>,
}

/// A client that proved which fleet it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Its fleet, `namespace/name` of its Gateway: the only one that it is given anything of.
    pub fleet: Arc<str>,
    /// Until when that is proven, in seconds since 1970; then its streams are ended.
    pub until: u64,
}

/// Decides who may come in.
pub trait Doorkeeper: Send + Sync + 'static {
    /// Which fleet a client proves to belong to. The reason of a refusal is for the log, and not for the client.
    ///
    /// # Errors
    /// Where it proves nothing.
    fn admit(&self, shown: &Shown<'_>) -> Result<Admitted, NotAdmitted>;
}

/// Why a client may not come in. Has nothing of what the client showed but names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAdmitted(pub String);

/// To which fleet the client of an RPC belongs, and why that is believed.
#[derive(Clone, Debug)]
pub(crate) enum Belonging {
    /// To the one that it names: for Envoys that reach the server over loopback or a unix socket of their own.
    Claimed,
    /// To the one that it proved.
    Proven(Admitted),
}

impl Belonging {
    /// May it be told of this fleet?
    pub(crate) fn may_see(&self, fleet: &str) -> bool {
        match self {
            Belonging::Claimed => true,
            Belonging::Proven(admitted) => *admitted.fleet == *fleet,
        }
    }
}
