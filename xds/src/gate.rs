//! Authentication layer around the whole server: no RPC of any service passes before its client is authenticated.
//!
//! The layer reads headers only: no message of a rejected client is read, and its connection is closed. A client gets
//! the same error for every refusal; the log has the reason.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::Either;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response, header};
use tower::Layer;
use tracing::info;

use crate::admission::{Authenticator, Belonging, NotAdmitted, PresentedCredentials};
use crate::peer::Peer;

/// Maximum length of a token, in bytes.
const BEARER_TOKEN_BYTES_MAX: usize = 8 << 10;

/// The authentication layer; without an authenticator, the claims of clients are trusted.
#[derive(Clone)]
pub(crate) struct AdmissionGate {
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    /// Whether managed Envoys have a socket of their own, so that no client of another socket is one.
    pub(crate) has_managed_socket: bool,
}

impl<S> Layer<S> for AdmissionGate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { gate: self.clone(), inner }
    }
}

/// A service behind the authentication layer.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    gate: AdmissionGate,
    inner: S,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.decide(&mut request) {
            Ok(belonging) => {
                request.extensions_mut().insert(belonging);
                Either::Left(self.inner.call(request))
            }
            Err(error) => {
                let peer = request.extensions().get::<Peer>();
                info!(peer = ?peer.and_then(Peer::address), path = request.uri().path(), %error, "client refused");
                peer.iter().for_each(|peer| peer.close());
                Either::Right(ready(Ok(unauthenticated().into_http())))
            }
        }
    }
}

impl<S> Gated<S> {
    fn decide(&self, request: &mut Request<Body>) -> Result<Belonging, NotAdmitted> {
        let unknown = || NotAdmitted("the connection is unknown".into());
        // The token is removed here: no service needs it, and it must not be logged.
        let token = request.headers_mut().remove(header::AUTHORIZATION);
        let peer = request.extensions().get::<Peer>().ok_or_else(unknown)?;
        let belonging = match &self.gate.authenticator {
            None if self.gate.has_managed_socket && peer.address().is_some() => Belonging::Unmanaged,
            None => Belonging::Claimed,
            Some(authenticator) => {
                let token = token.as_ref().and_then(|value| bearer(value.to_str().ok()?));
                Belonging::Proven(authenticator.admit(&PresentedCredentials { chain: peer.chain(), token })?)
            }
        };
        peer.mark_authenticated();
        Ok(belonging)
    }
}

/// Returns the text after `Bearer`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && token.len() <= BEARER_TOKEN_BYTES_MAX).then_some(token)
}

/// Returns the error for every client that is not admitted.
pub(crate) fn unauthenticated() -> Status {
    Status::unauthenticated("no valid credentials of a Gateway")
}
