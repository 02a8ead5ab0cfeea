//! The layer around the whole server: no RPC of any service gets past it before it is known whose it is.
//!
//! It looks at headers only: of a client that is not let in no message is read, and its connection ends. Every refusal
//! is the same to the client; why it was refused is in the log.

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

use crate::admission::{Belonging, Doorkeeper, NotAdmitted, Shown};
use crate::peer::Peer;

/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Who stands at the gate; where nobody does, clients are believed.
#[derive(Clone)]
pub(crate) struct Gate(pub(crate) Option<Arc<dyn Doorkeeper>>);

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { keeper: self.0.clone(), inner }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    keeper: Option<Arc<dyn Doorkeeper>>,
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
                info!(peer = ?peer.and_then(Peer::address), path = request.uri().path(), %error, "not let in");
                peer.iter().for_each(|peer| peer.close());
                Either::Right(ready(Ok(unauthenticated().into_http())))
            }
        }
    }
}

impl<S> Gated<S> {
    fn decide(&self, request: &mut Request<Body>) -> Result<Belonging, NotAdmitted> {
        let nobody = || NotAdmitted("the connection is unknown".into());
        // Taken away here: nothing behind the gate needs it, and what it says must be logged nowhere.
        let token = request.headers_mut().remove(header::AUTHORIZATION);
        let peer = request.extensions().get::<Peer>().ok_or_else(nobody)?;
        let belonging = match &self.keeper {
            None => Belonging::Claimed,
            Some(keeper) => {
                let token = token.as_ref().and_then(|value| bearer(value.to_str().ok()?));
                Belonging::Proven(keeper.admit(&Shown { chain: peer.chain(), token })?)
            }
        };
        peer.let_in();
        Ok(belonging)
    }
}

/// What stands behind `Bearer`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

/// What everybody is told who is not let in.
pub(crate) fn unauthenticated() -> Status {
    Status::unauthenticated("no valid credentials of a Gateway")
}
