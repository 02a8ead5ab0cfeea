//! xDS server of the probe: one delta stream over a unix socket that only this user can access.

use std::path::Path;
use std::pin::Pin;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures::Stream;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// Maximum number of responses that wait for the stream.
const PROBE_RESPONSES_MAX: usize = 64;
/// Maximum size of a request, in bytes; the longest is a refusal, with a message that Envoy truncates.
const PROBE_REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) requests: Streaming<DeltaDiscoveryRequest>,
    pub(crate) responses: mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>,
}

/// Serves until the returned set is dropped. One stream may wait to be received; others are rejected.
pub(crate) fn start(socket: &Path) -> Result<(JoinSet<()>, mpsc::Receiver<Link>)> {
    // Only this user can access the folder, and this process has locked it, so an existing socket was left behind.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
    let (sender, links) = mpsc::channel(1);
    let service = AggregatedDiscoveryServiceServer::new(ProbeService { links: sender });
    let router = Server::builder().add_service(service.max_decoding_message_size(PROBE_REQUEST_BYTES_MAX));
    let mut task = JoinSet::new();
    task.spawn(async move {
        if let Err(error) = router.serve_with_incoming(UnixListenerStream::new(listener)).await {
            tracing::error!(%error, "the probe's xDS server failed");
        }
    });
    Ok((task, links))
}

struct ProbeService {
    links: mpsc::Sender<Link>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for ProbeService {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("the probe supports only incremental (delta) xDS"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (responses, receiver) = mpsc::channel(PROBE_RESPONSES_MAX);
        let link = Link { requests: request.into_inner(), responses };
        self.links.try_send(link).map_err(|_| Status::resource_exhausted("another stream of the probe is open"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}
