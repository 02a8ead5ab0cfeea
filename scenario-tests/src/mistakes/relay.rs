//! The relay: an xDS server on a unix socket that forwards each stream to Holdfast, and adds mistakes to the responses.

use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures::{Stream, StreamExt};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

use super::spoil::spoil;

/// Interval between looks whether the Envoy still runs.
const LOOK: Duration = Duration::from_millis(100);

/// Forwards streams to an xDS server, `unix:PATH` or `http://HOST:PORT`.
#[derive(Clone, Debug)]
struct Relay {
    server: String,
}

/// Runs a relay on a socket until the process with this id, which started it, has ended.
///
/// # Errors
/// If the socket cannot be bound, or the server fails.
pub async fn run(socket: &Path, server: String, envoy: u32) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot bind {}", socket.display()))?;
    let service = AggregatedDiscoveryServiceServer::new(Relay { server }).max_decoding_message_size(usize::MAX);
    let ended = async {
        while parent_id() == envoy {
            tokio::time::sleep(LOOK).await;
        }
    };
    let streams = UnixListenerStream::new(listener);
    let served = Server::builder().add_service(service).serve_with_incoming(streams);
    let result = tokio::select! {
        result = served => result.context("the relay failed"),
        () = ended => Ok(()),
    };
    std::fs::remove_file(socket)?;
    result
}

/// Returns a path for the socket of this process.
pub fn socket() -> PathBuf {
    std::env::temp_dir().join(format!("holdfast-relay-{}.sock", std::process::id()))
}

impl Relay {
    async fn client(&self) -> Result<AggregatedDiscoveryServiceClient<Channel>, Status> {
        let failed = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let channel = Endpoint::from_shared(self.server.clone()).map_err(failed)?.connect().await.map_err(failed)?;
        Ok(AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX))
    }
}

/// Responses with their mistakes.
type Responses<R> = Pin<Box<dyn Stream<Item = Result<R, Status>> + Send>>;

/// Requests of an Envoy; its stream to Holdfast ends with its stream to the relay.
fn requests<R: Send + 'static>(stream: Streaming<R>) -> impl Stream<Item = R> + Send {
    stream.take_while(|request| std::future::ready(request.is_ok())).filter_map(async |request| request.ok())
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Relay {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        stream: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let responses = self.client().await?.stream_aggregated_resources(requests(stream.into_inner())).await?;
        let spoilt = responses.into_inner().map(|response| {
            let mut response = response?;
            response.resources.iter_mut().for_each(spoil);
            Ok(response)
        });
        Ok(Response::new(Box::pin(spoilt)))
    }

    async fn delta_aggregated_resources(
        &self,
        stream: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let responses = self.client().await?.delta_aggregated_resources(requests(stream.into_inner())).await?;
        let spoilt = responses.into_inner().map(|response| {
            let mut response = response?;
            response.resources.iter_mut().filter_map(|resource| resource.resource.as_mut()).for_each(spoil);
            Ok(response)
        });
        Ok(Response::new(Box::pin(spoilt)))
    }
}
