//! The gRPC server: ADS, client status, health and reflection on one socket.

use std::future::Future;
use std::sync::Arc;

use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryServiceServer;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::{Router, TcpIncoming};

use crate::ads::AggregatedDiscoveryService;
use crate::csds::ClientStatus;
use crate::identity::{ClaimedFleet, Identity};
use crate::limits::{KEEPALIVE, KEEPALIVE_TIMEOUT, STREAMS_PER_CONNECTION_MAX};
use crate::listen::{Address, Listen, ServeError, Socket, open};
use crate::stream::Context;
use crate::{Fleets, Notice, reflection};

/// Listens and serves until `shutdown` ends; see [`bind`] where the address must be known.
pub async fn serve(
    listen: Listen,
    fleets: Fleets,
    notices: mpsc::Sender<Notice>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    bind(listen)?.run(fleets, notices, shutdown).await
}

/// Starts to listen. Connections wait until [`Bound::run`]. Needs a running tokio runtime.
pub fn bind(listen: Listen) -> Result<Bound, ServeError> {
    let (socket, address) = open(listen)?;
    Ok(Bound { socket, address, identity: Arc::new(ClaimedFleet) })
}

/// A server that listens.
pub struct Bound {
    socket: Socket,
    address: Address,
    identity: Arc<dyn Identity>,
}

impl Bound {
    /// Where it listens; with the port that was taken, where port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Decides otherwise which fleet an Envoy belongs to; without this its `node.cluster` is believed.
    pub fn identify(mut self, identity: impl Identity) -> Self {
        self.identity = Arc::new(identity);
        self
    }

    /// Serves until `shutdown` ends; then every stream is ended, so that Envoys look for another server at once.
    ///
    /// Every Envoy that comes or goes and every answer goes to `notices`. A stream waits while that channel is full. Once
    /// nobody receives any more, notices are dropped and serving goes on.
    pub async fn run(
        self,
        fleets: Fleets,
        notices: mpsc::Sender<Notice>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopping) = watch::channel(false);
        let context = Context { fleets: fleets.clone(), identity: self.identity, notices, stopping };
        let router = router(context, fleets).await;
        let shutdown = async {
            shutdown.await;
            stop.send_replace(true);
        };
        let served = match self.socket {
            Socket::Tcp(listener) => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                router.serve_with_incoming_shutdown(incoming, shutdown).await
            }
            Socket::Unix(listener, _path) => {
                router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown).await
            }
        };
        served.map_err(|source| ServeError::Serve { address: self.address, source })
    }
}

async fn router(context: Context, fleets: Fleets) -> Router {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<AggregatedDiscoveryService>().await;
    let client_status = ClientStatusDiscoveryServiceServer::new(ClientStatus(fleets));
    let mut reflected = vec![
        AggregatedDiscoveryService::NAME,
        <ClientStatusDiscoveryServiceServer<ClientStatus> as NamedService>::NAME,
    ];
    let router = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .add_service(AggregatedDiscoveryService::new(context))
        .add_service(client_status)
        .add_service(health_service);
    reflected.push("grpc.health.v1.Health");
    router.add_optional_service(reflection::service(&reflected))
}
