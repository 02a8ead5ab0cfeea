//! The gRPC service `envoy.service.discovery.v3.AggregatedDiscoveryService`, with responses that share their bodies.
//!
//! The generated service would build every response as a message and encode it for each client. This service passes the
//! parts of a message to HTTP/2 as they are.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::body::Body;
use tonic::codec::{DecodeBuf, Decoder};
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response, header};
use tonic::server::NamedService;
use tonic::{Status, Streaming};

use crate::admission::Belonging;
use crate::gate::unauthenticated;
use crate::limits::{REQUEST_BYTES_MAX, STREAMS_MAX};
use crate::peer::Peer;
use crate::stream::{self, Caller, StreamContext};
use crate::wire::Message;

/// Maximum number of messages that wait for HTTP/2; further messages are made when these are sent.
const WAITING_MESSAGES_MAX: usize = 8;

/// Approximate size of frames into which small messages are combined, in bytes.
const FRAME_BYTES: usize = 16 << 10;

/// The ADS service.
#[derive(Clone)]
pub(crate) struct AggregatedDiscoveryService {
    context: StreamContext,
    streams: Arc<Semaphore>,
}

impl AggregatedDiscoveryService {
    pub(crate) fn new(context: StreamContext) -> Self {
        Self { context, streams: Arc::new(Semaphore::new(STREAMS_MAX)) }
    }

    fn open<R: stream::Request>(&self, mut request: Request<Body>) -> Response<Body> {
        let extensions = request.extensions_mut();
        let (Some(belonging), Some(peer)) = (extensions.remove::<Belonging>(), extensions.remove::<Peer>()) else {
            return unauthenticated().into_http();
        };
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            return Status::resource_exhausted("too many streams").into_http();
        };
        let requests = Streaming::new_request(
            RequestDecoder(PhantomData::<R>),
            request.into_body(),
            None,
            Some(REQUEST_BYTES_MAX),
        );
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES_MAX);
        tokio::spawn(stream::run(self.context.clone(), Caller { belonging, peer }, requests, sender));
        let body = OutboundBody { messages, parts: VecDeque::new(), trailers: None, ended: false, _permit: permit };
        let mut response = Response::new(Body::new(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }
}

impl NamedService for AggregatedDiscoveryService {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl Service<Request<Body>> for AggregatedDiscoveryService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
        let method = request.uri().path().rsplit('/').next();
        ready(Ok(match method {
            Some("DeltaAggregatedResources") => self.open::<DeltaDiscoveryRequest>(request),
            Some("StreamAggregatedResources") => self.open::<DiscoveryRequest>(request),
            _ => Status::unimplemented("only the methods with streams are supported").into_http(),
        }))
    }
}

/// Decoder for requests.
struct RequestDecoder<R>(PhantomData<R>);

impl<R: stream::Request> Decoder for RequestDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        R::decode(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// The body of the response: messages as they arrive, then the status.
struct OutboundBody {
    messages: mpsc::Receiver<Result<Message, Status>>,
    parts: VecDeque<Bytes>,
    trailers: Option<Status>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl OutboundBody {
    /// Takes ready messages, with small ones combined, until there is a frame or no further message is ready.
    fn fill(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        let mut open = BytesMut::new();
        let outcome = loop {
            match self.messages.poll_recv(task) {
                Poll::Ready(Some(Ok(message))) if message.length <= FRAME_BYTES && message.parts.len() == 1 => {
                    if open.is_empty() && self.messages.is_empty() {
                        self.parts.extend(message.parts);
                        break Poll::Ready(());
                    }
                    message.parts.iter().for_each(|part| open.extend_from_slice(part));
                    if open.len() >= FRAME_BYTES {
                        break Poll::Ready(());
                    }
                }
                Poll::Ready(Some(Ok(message))) => {
                    self.parts.extend((!open.is_empty()).then(|| open.split().freeze()));
                    self.parts.extend(message.parts.into_iter().filter(|part| !part.is_empty()));
                    break Poll::Ready(());
                }
                Poll::Ready(Some(Err(status))) => {
                    self.trailers = Some(status);
                    break Poll::Ready(());
                }
                Poll::Ready(None) => {
                    self.trailers = Some(Status::ok(""));
                    break Poll::Ready(());
                }
                Poll::Pending if open.is_empty() => break Poll::Pending,
                Poll::Pending => break Poll::Ready(()),
            }
        };
        self.parts.extend((!open.is_empty()).then(|| open.freeze()));
        outcome
    }
}

impl hyper::body::Body for OutboundBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(status) = self.trailers.take() {
                self.ended = true;
                let mut trailers = HeaderMap::new();
                return Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))));
            }
            if self.fill(task).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.parts.is_empty()
    }
}
