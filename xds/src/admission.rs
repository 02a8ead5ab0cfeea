//! Authentication of xDS clients, as data: the credentials that a client presents, and the result.
//!
//! The fleet of a client is decided once for each RPC, from what its connection and the headers of the RPC prove,
//! before any message is read. The claims of a client are compared with this fleet and never select anything.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

/// Credentials that a client presents at the start of an RPC.
#[derive(Clone, Copy, Debug)]
pub struct PresentedCredentials<'a> {
    /// The certificate chain of the connection, the certificate of the client first; empty where it presented none.
    ///
    /// The client has the key of this certificate. Whether the certificate is still valid is checked again for each
    /// RPC: connections live long.
    pub chain: &'a [CertificateDer<'static>],
    /// The text after `Bearer` in the `authorization` header.
    pub token: Option<&'a str>,
}

/// A client that proved its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The fleet, `namespace/name` of its Gateway: the only one with data for this client.
    pub fleet: Arc<str>,
    /// Time until which the proof is valid, in seconds since 1970; then the streams of the client are ended.
    pub until: u64,
}

/// Decides which clients are admitted.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the fleet that a client proves to belong to. The reason for a refusal is for the log, and not for the
    /// client.
    ///
    /// # Errors
    /// Fails where the client proves nothing.
    fn admit(&self, shown: &PresentedCredentials<'_>) -> Result<Admitted, NotAdmitted>;
}

/// Reason why a client is not admitted. Contains only names of what the client presented.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAdmitted(pub String);

/// The fleet of the client of an RPC, and the reason for trusting it.
#[derive(Clone, Debug)]
pub(crate) enum Belonging {
    /// The fleet that the client names: for Envoys that reach the server over loopback or a unix socket of their own.
    Claimed,
    /// The fleet that the client names, beside a [managed](crate::managed) Envoy, which the client is not.
    Unmanaged,
    /// The fleet that the client proved.
    Proven(Admitted),
}

impl Belonging {
    /// Returns whether the client may read data of this fleet.
    pub(crate) fn may_see(&self, fleet: &str) -> bool {
        match self {
            Belonging::Claimed | Belonging::Unmanaged => true,
            Belonging::Proven(admitted) => *admitted.fleet == *fleet,
        }
    }
}
