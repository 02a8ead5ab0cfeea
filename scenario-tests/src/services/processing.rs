//! An external processing service: marks requests and responses, and denies requests without the header
//! `x-word: let me in`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ImmediateResponse, ProcessingRequest,
    ProcessingResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use futures::{Stream, StreamExt};
use tokio_stream::wrappers::TcpListenerStream;

use super::{RunningServer, lock};

/// The value of the header `x-word` in requests that are not denied.
pub const PASS: &str = "let me in";
/// The header that the service adds to requests and responses.
pub const MARK: &str = "x-processed";
/// A header that names another header, which the service adds to the request, so that Envoy selects another route.
pub const ELSEWHERE: &str = "x-elsewhere";
/// The body of responses to denied requests.
pub const REFUSAL: &str = "refused on the way";

/// The messages of Envoy, as `request headers /path`, `request body text`, `response headers`.
type SeenMessages = Arc<Mutex<Vec<String>>>;

/// An external processing service.
#[derive(Debug)]
pub struct ProcessingServer {
    running: RunningServer,
    seen: SeenMessages,
}

impl ProcessingServer {
    /// Starts a service.
    pub async fn start() -> Result<Self> {
        let (listener, address) = super::bind().await?;
        let seen = SeenMessages::default();
        let server = ExternalProcessorServer::new(ProcessingGrpc { seen: seen.clone() });
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let _ = tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming).await;
        });
        Ok(Self { running: RunningServer { address, task }, seen })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// The messages so far.
    pub fn seen(&self) -> Vec<String> {
        lock(&self.seen).clone()
    }
}

struct ProcessingGrpc {
    seen: SeenMessages,
}

#[tonic::async_trait]
impl ExternalProcessor for ProcessingGrpc {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, tonic::Status>> + Send>>;

    async fn process(
        &self,
        request: tonic::Request<tonic::Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, tonic::Status> {
        let seen = self.seen.clone();
        let answers = request.into_inner().map(move |message| {
            let response = message?.request.map(|request| answer(request, &seen));
            Ok(ProcessingResponse { response, ..Default::default() })
        });
        Ok(tonic::Response::new(Box::pin(answers)))
    }
}

fn answer(request: Request, seen: &SeenMessages) -> Response {
    let note = |text: String| lock(seen).push(text);
    let set = |key: &str| {
        let header = HeaderValue { key: key.into(), raw_value: b"yes".to_vec(), ..Default::default() };
        HeaderValueOption { header: Some(header), ..Default::default() }
    };
    let marked = |others: Vec<HeaderValueOption>, clear_route_cache: bool| {
        let set_headers = [vec![set(MARK)], others].concat();
        let header_mutation = Some(HeaderMutation { set_headers, ..Default::default() });
        let response = Some(CommonResponse { header_mutation, clear_route_cache, ..Default::default() });
        HeadersResponse { response }
    };
    match request {
        Request::RequestHeaders(headers) => {
            let value = |name: &str| header(headers.headers.as_ref(), name);
            note(format!("request headers {}", value(":path").unwrap_or_default()));
            if value("x-word").as_deref() != Some(PASS) {
                return Response::ImmediateResponse(ImmediateResponse {
                    status: Some(HttpStatus { code: 403 }),
                    body: REFUSAL.into(),
                    ..Default::default()
                });
            }
            match value(ELSEWHERE) {
                Some(name) => Response::RequestHeaders(marked(vec![set(&name)], true)),
                None => Response::RequestHeaders(marked(Vec::new(), false)),
            }
        }
        Request::ResponseHeaders(_) => {
            note("response headers".into());
            Response::ResponseHeaders(marked(Vec::new(), false))
        }
        Request::RequestBody(body) => {
            note(format!("request body {}", String::from_utf8_lossy(&body.body)));
            Response::RequestBody(BodyResponse::default())
        }
        Request::ResponseBody(_) => Response::ResponseBody(BodyResponse::default()),
        Request::RequestTrailers(_) => Response::RequestTrailers(TrailersResponse::default()),
        Request::ResponseTrailers(_) => Response::ResponseTrailers(TrailersResponse::default()),
    }
}

fn header(headers: Option<&HeaderMap>, name: &str) -> Option<String> {
    let header = headers?.headers.iter().find(|header| header.key == name)?;
    let text = if header.value.is_empty() { header.raw_value.as_slice() } else { header.value.as_bytes() };
    Some(String::from_utf8_lossy(text).into_owned())
}
