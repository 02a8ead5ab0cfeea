//! A client of the xDS server with an arbitrary token that subscribes to arbitrary resources.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::connect::{self, ClientTls, HttpVersion};

/// Capacity of the queue of requests.
const WAITING_MAX: usize = 64;
/// The type of the response that ends an exchange: no response to an earlier request comes after it.
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// A client of the xDS server with an arbitrary token.
#[derive(Clone, Debug)]
pub struct XdsClient {
    /// The port of the server, on loopback.
    pub port: u16,
    /// The TLS parameters for the server.
    pub trust: ClientTls,
    /// The token; none where empty.
    pub token: String,
    /// `node.cluster`.
    pub node_cluster: String,
}

impl XdsClient {
    async fn client(&self) -> Result<AggregatedDiscoveryServiceClient<Channel>> {
        let connector = Connector { port: self.port, trust: self.trust.clone() };
        let endpoint = Endpoint::from_static("http://xds");
        Ok(AggregatedDiscoveryServiceClient::new(endpoint.connect_with_connector(connector).await?))
    }

    fn request<T>(&self, messages: T) -> Result<Request<T>> {
        let mut request = Request::new(messages);
        if !self.token.is_empty() {
            request.metadata_mut().insert("authorization", format!("Bearer {}", self.token).parse()?);
        }
        Ok(request)
    }

    fn node(&self) -> Option<Node> {
        Some(Node { id: "xds-client".into(), cluster: self.node_cluster.clone(), ..Node::default() })
    }

    /// Subscribes with delta to the given names of a type and to its wildcard, then to listeners; returns all received
    /// resources, encoded.
    ///
    /// # Errors
    /// The status with which the stream ended early.
    pub async fn subscribe_delta(&self, type_url: &str, names: &[String]) -> Result<Vec<Vec<u8>>> {
        let (send, messages) = tokio::sync::mpsc::channel(WAITING_MAX);
        let all = names.iter().cloned().chain(["*".to_owned()]).collect();
        let first =
            DeltaDiscoveryRequest { node: self.node(), type_url: type_url.into(), ..DeltaDiscoveryRequest::default() };
        send.send(DeltaDiscoveryRequest { resource_names_subscribe: all, ..first.clone() }).await?;
        if type_url != LISTENER {
            send.send(DeltaDiscoveryRequest { type_url: LISTENER.into(), ..first }).await?;
        }
        let mut client = self.client().await?;
        let answered = client.delta_aggregated_resources(self.request(ReceiverStream::new(messages))?).await?;
        let mut answers = answered.into_inner();
        let mut got = Vec::new();
        loop {
            let answer = answers.message().await?.context("the stream ended")?;
            got.extend(answer.resources.iter().map(Message::encode_to_vec));
            if answer.type_url == LISTENER && !answer.resources.is_empty() {
                return Ok(got);
            }
            let ack =
                DeltaDiscoveryRequest { type_url: answer.type_url, response_nonce: answer.nonce, ..Default::default() };
            send.send(ack).await?;
        }
    }

    /// Subscribes in the state of the world to the given names of a type, or to all where there are none, then to
    /// listeners; returns all received resources, encoded.
    ///
    /// # Errors
    /// The status with which the stream ended early.
    pub async fn subscribe_sotw(&self, type_url: &str, names: &[String]) -> Result<Vec<Vec<u8>>> {
        let (send, messages) = tokio::sync::mpsc::channel(WAITING_MAX);
        let first = DiscoveryRequest { node: self.node(), type_url: type_url.into(), ..DiscoveryRequest::default() };
        // Listeners are always subscribed to without names, because their response ends the exchange.
        let subscribed = if type_url == LISTENER { Vec::new() } else { names.to_vec() };
        send.send(DiscoveryRequest { resource_names: subscribed, ..first.clone() }).await?;
        if type_url != LISTENER {
            send.send(DiscoveryRequest { type_url: LISTENER.into(), ..first }).await?;
        }
        let mut client = self.client().await?;
        let answered = client.stream_aggregated_resources(self.request(ReceiverStream::new(messages))?).await?;
        let mut answers = answered.into_inner();
        let mut got = Vec::new();
        loop {
            let answer = answers.message().await?.context("the stream ended")?;
            got.extend(answer.resources.iter().map(Message::encode_to_vec));
            if answer.type_url == LISTENER && !answer.resources.is_empty() {
                return Ok(got);
            }
            let (version_info, response_nonce) = (answer.version_info, answer.nonce);
            let ack =
                DiscoveryRequest { type_url: answer.type_url, version_info, response_nonce, ..Default::default() };
            send.send(ack).await?;
        }
    }
}

/// Opens connections over TLS.
struct Connector {
    port: u16,
    trust: ClientTls,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (port, trust) = (self.port, self.trust.clone());
        Box::pin(async move {
            let stream = connect::secured(port, HttpVersion::Http2, &trust).await;
            stream.map(TokioIo::new).map_err(|error| std::io::Error::other(format!("{error:#}")))
        })
    }
}
