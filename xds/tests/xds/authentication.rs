//! Tests of unauthenticated peers: they cannot call any RPC of any service, and their time and connections are limited.

use std::collections::BTreeSet;

use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::status::v3::ClientStatusRequest;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use holdfast_xds::ResourceType;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost_reflect::DescriptorPool;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::codegen::http::{Request, StatusCode};
use tonic::service::Interceptor;

use crate::client::{DeltaClient, Server, SotwClient, soon};
use crate::secure::{Authority, CertificateWithKey, Guarded, configuration, connect};
use crate::vocabulary::{node, request};

/// Returns every RPC of every service that is served, and of the whole Envoy API.
fn every_rpc() -> BTreeSet<String> {
    let mut pool = DescriptorPool::decode(include_bytes!("../../src/types.bin").as_slice()).unwrap();
    pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET).unwrap();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut paths: BTreeSet<String> =
        methods.map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name())).collect();
    paths.insert("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".into());
    paths.insert("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo".into());
    paths.insert("/".into());
    paths.insert("/metrics".into());
    paths
}

/// Returns the code with which an RPC ends after one empty message, or `None` where it continues.
async fn code(
    guarded: &Guarded,
    pair: Option<&CertificateWithKey>,
    headers: &[(&str, &str)],
    path: &str,
) -> Option<i32> {
    let io = TokioIo::new(guarded.connect(pair).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::post(format!("https://server{path}")).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    let response = soon(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let status = |headers: &tonic::codegen::http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    let code = match status(response.headers()) {
        Some(code) => Some(code),
        None => soon(response.into_body().collect()).await.unwrap().trailers().and_then(status),
    };
    connection.abort();
    code
}

#[tokio::test]
async fn no_rpc_is_served_without_credentials() {
    let guarded = Guarded::start();
    let paths = every_rpc();
    for needed in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets",
        "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
        "/grpc.health.v1.Health/Check",
    ] {
        assert!(paths.contains(needed), "{needed}");
    }
    for path in &paths {
        assert_eq!(code(&guarded, None, &[], path).await, Some(Code::Unauthenticated as i32), "{path}");
    }
    let path = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
    for authorization in ["Bearer", "Bearer ", "Bearer nonsense", "Basic of a/a", "of a/a"] {
        let headers = [("authorization", authorization)];
        assert_eq!(code(&guarded, None, &headers, path).await, Some(Code::Unauthenticated as i32), "{authorization}");
    }
    assert_eq!(code(&guarded, None, &[("authorization", "Bearer of a/a")], path).await, Some(0));
}

#[tokio::test]
async fn fetch_rpcs_for_resources_are_unimplemented() {
    let guarded = Guarded::start();
    for path in every_rpc().iter().filter(|path| path.contains("/Fetch") && !path.contains("ClientStatus")) {
        let code = code(&guarded, Some(&guarded.a), &[], path).await;
        assert_eq!(code, Some(Code::Unimplemented as i32), "{path}");
    }
}

#[tokio::test]
async fn certificates_of_others_and_old_protocols_end_in_the_handshake() {
    let guarded = Guarded::start();
    guarded.server.publish("a/a", "CDS of-a=1");
    let mut untrusted = guarded.connect(Some(&Authority::new().sign("a"))).await.unwrap();
    // With TLS 1.3 the client completes the handshake before the server has received its certificate.
    assert!(soon(untrusted.read(&mut [0; 1])).await.is_err());
    let other = Authority::new();
    assert!(connect(&guarded.server, &other, None, &[&rustls::version::TLS13]).await.is_err());
    // TLS 1.2 is supported, and connections without TLS are not.
    connect(&guarded.server, &guarded.authority, Some(&guarded.a), &[&rustls::version::TLS12]).await.unwrap();
    let mut plain = TcpStream::connect(guarded.server.address.tcp().unwrap()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = soon(plain.read_to_end(&mut answer)).await;
    assert!(answer.len() <= 7, "an alert at most: {answer:?}");
}

/// Slow clients are disconnected, during the handshake and after it; authenticated clients are served meanwhile.
#[tokio::test]
async fn slow_clients_are_disconnected() {
    let guarded = Guarded::start();
    guarded.server.publish("a/a", "CDS of-a=1");
    let mut silent = TcpStream::connect(guarded.server.address.tcp().unwrap()).await.unwrap();
    let mut without_rpc = guarded.connect(Some(&guarded.a)).await.unwrap();
    let mut slow = guarded.connect(None).await.unwrap();
    let dripping = tokio::spawn(async move {
        // The preface of HTTP/2, byte by byte.
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().cycle() {
            let write = tokio::io::AsyncWriteExt::write_all(&mut slow, std::slice::from_ref(byte));
            if write.await.is_err() || tokio::io::AsyncWriteExt::flush(&mut slow).await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        }
    });
    let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
    let mut client = DeltaClient::open(channel, "e", "a/a").await;
    client.requests("CDS").await;
    client.accepts("CDS +of-a=1").await;
    assert!(matches!(soon(silent.read(&mut [0; 1])).await, Ok(0) | Err(_)));
    let mut rest = Vec::new();
    let _ = soon(without_rpc.read_to_end(&mut rest)).await;
    soon(dripping).await.unwrap();
    guarded.server.publish("a/a", "CDS still=1");
    client.accepts("CDS +still=1").await;
}

#[tokio::test]
async fn connections_of_one_unauthenticated_peer_are_limited() {
    let guarded = Guarded::start();
    let address = guarded.server.address.tcp().unwrap();
    let mut held = Vec::new();
    for _ in 0..holdfast_xds::limits::UNAUTHENTICATED_PER_PEER_MAX {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    let mut late = TcpStream::connect(address).await.unwrap();
    // At once, long before a handshake would time out: all other connections are still open.
    assert!(matches!(soon(late.read(&mut [0; 1])).await, Ok(0) | Err(_)));
    for stream in &held {
        assert_eq!(stream.try_read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    drop(held);
    soon(async {
        while guarded.connect(Some(&guarded.a)).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn headers_that_are_too_long_are_not_read() {
    let guarded = Guarded::start();
    let long = "x".repeat(holdfast_xds::limits::HEADER_BYTES_MAX as usize);
    let io = TokioIo::new(guarded.connect(None).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("https://server/").header("x-long", long).body(Full::new(Bytes::new())).unwrap();
    let answer = soon(sender.send_request(request)).await;
    assert!(answer.is_err() || answer.unwrap().status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn an_envoy_sees_only_what_is_of_its_own_gateway() {
    let guarded = Guarded::start();
    let types = ResourceType::ALL.map(ResourceType::short_name);
    for kind in types {
        guarded.server.publish("a/a", &format!("{kind} x=a"));
    }
    guarded.server.publish("b/b", &types.map(|kind| format!("{kind} b/secret=b")).join("; "));
    guarded.server.publish("a/a", &types.map(|kind| format!("{kind} a/own=a")).join("; "));

    // In the first message, for an existing and for a missing Gateway: the error is equal.
    let mut refusals = Vec::new();
    for claimed in ["b/b", "no/such"] {
        let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
        let delta = DeltaClient::open(channel, "e", claimed).await;
        refusals.push(delta.end().await.unwrap_err());
        let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
        let mut sotw = SotwClient::open(channel, "e", claimed).await;
        refusals.push(sotw.refused().await);
    }
    let texts: BTreeSet<_> = refusals.iter().map(|status| (status.code() as i32, status.message())).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(refusals[0].code(), Code::PermissionDenied);

    for kind in types {
        // By name and by wildcard, with delta and in the state of the world.
        let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
        let mut delta = DeltaClient::open(channel, "e", "a/a").await;
        delta.requests(&format!("{kind} add=b/secret,a/own,no/such")).await;
        let mut names = BTreeSet::new();
        while !names.contains("a/own") {
            names.extend(delta.take().await.resources.into_iter().map(|resource| resource.name));
        }
        assert!(!names.contains("b/secret"), "{kind}");
        // In the second message of one stream.
        delta.send(request(kind).from(node("e", "b/b")).delta()).await;
        assert_eq!(delta.end().await.unwrap_err().code(), Code::PermissionDenied);

        let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
        let mut sotw = SotwClient::open(channel, "e", "").await;
        sotw.requests(&format!("{kind} names=b/secret,a/own")).await;
        let expected = if kind == "CDS" { "CDS a/own=a".to_owned() } else { format!("{kind} a") };
        sotw.receives(&expected).await;
        sotw.send(DiscoveryRequest { node: Some(node("e", "b/b")), ..Default::default() }).await;
        assert_eq!(sotw.refused().await.code(), Code::PermissionDenied);
    }

    // A token takes precedence over a certificate that other clients also present; `authorization` must not be present
    // twice.
    let channel = guarded.channel(Some(&guarded.b)).await.unwrap();
    let mut status =
        ClientStatusDiscoveryServiceClient::with_interceptor(channel.clone(), PresentedToken("Bearer of a/a"));
    let held = DeltaClient::open(channel, "of-b", "b/b").await;
    crate::client::until(|| guarded.server.fleets.connected().contains_key("b/b")).await;
    let seen = status.fetch_client_status(ClientStatusRequest::default()).await.unwrap().into_inner();
    assert!(seen.config.iter().all(|client| client.node.as_ref().unwrap().cluster == "a/a"), "{seen:?}");
    drop(held);
}

/// Presents a token.
#[derive(Clone)]
struct PresentedToken(&'static str);

impl Interceptor for PresentedToken {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert("authorization", self.0.parse().unwrap());
        Ok(request)
    }
}

#[tokio::test]
async fn a_stream_ends_when_what_was_shown_does_and_its_connection_with_it() {
    let guarded = Guarded::for_seconds(2);
    let channel = guarded.channel(Some(&guarded.a)).await.unwrap();
    let client = DeltaClient::open(channel.clone(), "e", "a/a").await;
    let status = client.end().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "credentials expired: reconnect"));
    // The channel cannot connect a second time: so this connection was closed.
    soon(async {
        let mut status = ClientStatusDiscoveryServiceClient::new(channel);
        while status.fetch_client_status(ClientStatusRequest::default()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let guarded = Guarded::start();
    guarded.server.publish("a/a", "CDS one=1");
    let mut client = DeltaClient::open(guarded.channel(Some(&guarded.a)).await.unwrap(), "e", "a/a").await;
    client.requests("CDS").await;
    client.accepts("CDS +one=1").await;

    let renewed = guarded.authority.sign("server");
    guarded.tls.send_replace(configuration(&guarded.authority, renewed.clone()));
    let connection = guarded.connect(Some(&guarded.a)).await.unwrap();
    assert_eq!(connection.get_ref().1.peer_certificates().unwrap(), [renewed.0]);
    guarded.server.publish("a/a", "CDS two=1");
    client.accepts("CDS +two=1").await;
}

#[tokio::test]
async fn silent_clients_are_disconnected_also_where_claims_are_trusted() {
    let server = Server::start();
    let mut silent = TcpStream::connect(server.address.tcp().unwrap()).await.unwrap();
    let mut received = Vec::new();
    // The preface of the server may be received first.
    let _ = soon(silent.read_to_end(&mut received)).await;
}
