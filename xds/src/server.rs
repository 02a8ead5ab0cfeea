//! gRPC server: ADS, client status, health and reflection on one socket, and on a second one for managed Envoys.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryServiceServer;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};

use crate::ads::AggregatedDiscoveryService;
use crate::csds::ClientStatus;
use crate::door::TlsSource;
use crate::gate::AdmissionGate;
use crate::limits::{
    CONNECTIONS_MAX, HEADER_BYTES_MAX, KEEPALIVE, KEEPALIVE_TIMEOUT, PLAIN_UNAUTHENTICATED_PER_PEER_MAX,
    STREAMS_PER_CONNECTION_MAX, UNAUTHENTICATED_PER_PEER_MAX, WINDOW_BYTES_MAX,
};
use crate::listen::{Address, BoundSocket, Listen, OwnedPath, ServeError, bound_unix, open};
use crate::lost::{self, Reachable};
use crate::managed::ManagedClaims;
use crate::peer::PeerIo;
use crate::rooms::Rooms;
use crate::stream::StreamContext;
use crate::{Authenticator, Fleets, Notice, door, reflection};

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
    let reachable = Reachable::default();
    if let BoundSocket::Unix(_, file) = &socket {
        reachable.is_at(file.0.clone());
    }
    Ok(Bound { socket, managed: None, address, reachable, guard: None, connections_max: CONNECTIONS_MAX })
}

/// A listening server.
pub struct Bound {
    socket: BoundSocket,
    managed: Option<(UnixListener, OwnedPath)>,
    address: Address,
    reachable: Reachable,
    guard: Option<ServerGuard>,
    connections_max: usize,
}

/// Authentication of clients.
struct ServerGuard {
    tls: TlsSource,
    authenticator: Arc<dyn Authenticator>,
}

impl Bound {
    /// Returns the address of the server; with the actual port, where port 0 was requested.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Also listens on a unix socket for [managed](crate::managed) Envoys, for this user only. No client of the TCP
    /// socket counts as one of them any longer. Not for servers on a unix socket, which is for this user only already.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created.
    pub fn with_managed_socket(mut self, path: PathBuf) -> Result<Self, ServeError> {
        let (listener, file) = bound_unix(&path)?;
        self.reachable.is_at(file.0.clone());
        self.managed = Some((listener, file));
        Ok(self)
    }

    /// Returns the address for managed Envoys: their own socket, if there is one.
    pub fn managed_address(&self) -> Address {
        match &self.managed {
            Some((_, file)) => Address::Unix(file.0.path().to_owned()),
            None => self.address.clone(),
        }
    }

    /// Returns whether clients can reach the server, also while it runs.
    pub fn reachable(&self) -> Reachable {
        self.reachable.clone()
    }

    /// Serves over TLS, and only clients that the authenticator admits. Without this, the claims of every client are
    /// trusted.
    ///
    /// On a unix socket there is no TLS, and clients cannot present credentials: then no client is admitted.
    pub fn guard(mut self, tls: TlsSource, authenticator: Arc<dyn Authenticator>) -> Self {
        self.guard = Some(ServerGuard { tls, authenticator });
        self
    }

    /// Limits the number of concurrent TCP connections, up to [`CONNECTIONS_MAX`].
    pub fn with_connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// Serves until `shutdown` ends; then every stream is ended, so that Envoys connect to another server at once.
    ///
    /// The start and end of each stream, and every answer, are sent to `notices`. A stream waits while this channel is
    /// full. After the receiver is dropped, notices are dropped and the server continues.
    pub async fn run(
        self,
        fleets: Fleets,
        notices: mpsc::Sender<Notice>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (stop, stopping) = watch::channel(false);
        let context = StreamContext { fleets: fleets.clone(), notices, claims: ManagedClaims::default(), stopping };
        let (tls, authenticator) = self.guard.map(|guard| (guard.tls, guard.authenticator)).unzip();
        let router =
            router(context, fleets, AdmissionGate { authenticator, has_managed_socket: self.managed.is_some() }).await;
        let shutdown = async {
            shutdown.await;
            stop.send_replace(true);
        };
        let served = match self.socket {
            BoundSocket::Tcp(listener) => {
                let per_peer =
                    if tls.is_some() { UNAUTHENTICATED_PER_PEER_MAX } else { PLAIN_UNAUTHENTICATED_PER_PEER_MAX };
                let connections = door::open(listener, tls, Rooms::of(self.connections_max, per_peer));
                let reachable = self.reachable.clone();
                let managed = stream::iter(self.managed).flat_map(move |(listener, file)| {
                    lost::connections(listener, file, reachable.clone()).map_ok(PeerIo::unix)
                });
                let connections = stream::select(connections, managed);
                let served = router.serve_with_incoming_shutdown(connections, shutdown).await;
                self.reachable.ends();
                served
            }
            BoundSocket::Unix(listener, file) => {
                let incoming = lost::connections(listener, file, self.reachable.clone());
                let served = router.serve_with_incoming_shutdown(incoming.map_ok(PeerIo::unix), shutdown).await;
                self.reachable.ends();
                served
            }
        };
        served.map_err(|source| ServeError::Serve { address: self.address, source })
    }
}

async fn router(context: StreamContext, fleets: Fleets, gate: AdmissionGate) -> Router<Stack<AdmissionGate, Identity>> {
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
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES_MAX)
        .layer(gate)
        .add_service(AggregatedDiscoveryService::new(context))
        .add_service(client_status)
        .add_service(health_service);
    reflected.push("grpc.health.v1.Health");
    router.add_optional_service(reflection::service(&reflected))
}
