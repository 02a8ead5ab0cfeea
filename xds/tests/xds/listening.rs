//! Tests of listening sockets, and of the errors where listening is not possible.

use std::os::unix::fs::PermissionsExt;

use holdfast_xds::{Address, Listen, Notice, ServeError, UNMANAGED_BUILD, bind, managed_node_id};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Code;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::client::{DeltaClient, FLEET, Server, soon};

#[tokio::test]
async fn a_port_in_use_is_reported_with_its_address() {
    let taken = bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let address = taken.address().tcp().unwrap();
    let error = bind(Listen::Tcp(address)).err().unwrap();
    assert!(matches!(error, ServeError::InUse(_)));
    assert_eq!(error.to_string(), format!("{address} is in use by another process"));
}

#[tokio::test]
async fn a_socket_that_listens_already_is_taken_over() {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let bound = bind(Listen::Socket(socket)).unwrap();
    assert_eq!(bound.address().tcp(), Some(address));
    let server = Server::on(bound);
    server.publish(FLEET, "CDS a=1");
    let mut client = server.delta("e").await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1").await;
}

#[tokio::test]
async fn a_unix_socket_is_for_its_user_alone_and_goes_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let mut server = Server::on(bind(Listen::Unix(path.clone())).unwrap());
    assert_eq!(server.address.to_string(), format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    server.publish(FLEET, "CDS a=1");
    let to = path.clone();
    let connector = service_fn(move |_: Uri| {
        let to = to.clone();
        async move { UnixStream::connect(to).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://unix").connect_with_connector(connector).await.unwrap();
    let mut client = DeltaClient::open(channel, "e", FLEET).await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1").await;

    let error = bind(Listen::Unix(path.clone())).err().unwrap();
    assert!(matches!(error, ServeError::InUse(_)), "{error}");
    server.stop();
    drop(client);
    soon(&mut server.ended).await.unwrap().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_of_a_server_that_is_gone_is_replaced_and_a_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(bind(Listen::Unix(path.clone())).unwrap());
    std::fs::write(&path, "mine").unwrap();
    let error = bind(Listen::Unix(path.clone())).err().unwrap();
    assert!(matches!(error, ServeError::NotASocket(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// Returns a client of the socket at this path.
async fn connected(path: &std::path::Path, id: &str) -> DeltaClient {
    let path = path.to_owned();
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://unix").connect_with_connector(connector).await.unwrap();
    let client = DeltaClient::open(channel, id, FLEET).await;
    client.requests("CDS").await;
    client
}

/// Waits until the server is reachable, or is unreachable for a reason with these words.
async fn comes_to(reachable: &holdfast_xds::Reachable, words: Option<&str>) {
    for _ in 0..1000 {
        match (reachable.failure(), words) {
            (None, None) => return,
            (Some(why), Some(words)) if why.contains(words) => return,
            _ => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
    panic!("{:?}, and not {words:?}", reachable.failure());
}

#[tokio::test]
async fn a_socket_that_is_removed_is_made_again_also_with_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let path = data.join("xds.sock");
    let bound = bind(Listen::Unix(path.clone())).unwrap();
    let reachable = bound.reachable();
    let mut server = Server::on(bound);
    server.publish(FLEET, "CDS a=1");
    let mut before = connected(&path, "before").await;
    before.accepts("CDS +a=1").await;
    for gone in [&path, &data] {
        if gone.is_dir() { std::fs::remove_dir_all(gone) } else { std::fs::remove_file(gone) }.unwrap();
        assert!(reachable.failure().unwrap().contains("will be created again"));
        comes_to(&reachable, None).await;
        connected(&path, "new").await.accepts("CDS +a=1").await;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A client that was connected before is not affected.
    server.publish(FLEET, "CDS b=1");
    before.accepts("CDS +b=1").await;
    drop(before);
    server.stop();
    soon(&mut server.ended).await.unwrap().unwrap();
    assert!(!path.exists(), "it goes with its server");
    assert_eq!(reachable.failure(), None);
}

#[tokio::test]
async fn a_file_where_the_socket_was_is_left_alone_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let bound = bind(Listen::Unix(path.clone())).unwrap();
    let reachable = bound.reachable();
    let server = Server::on(bound);
    server.publish(FLEET, "CDS a=1");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    comes_to(&reachable, Some("cannot be created again: ")).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    comes_to(&reachable, Some("in use by another process")).await;
    drop(other);
    comes_to(&reachable, None).await;
    connected(&path, "new").await.accepts("CDS +a=1").await;
}

#[tokio::test]
async fn a_missing_folder_is_reported() {
    let error = bind(Listen::Unix("/nonexistent/folder/xds.sock".into())).err().unwrap();
    assert!(error.to_string().starts_with("cannot listen on unix:/nonexistent/folder/xds.sock"), "{error}");
}

/// Beside a socket for managed Envoys, no client of the TCP socket counts as one of them; all others are served.
#[tokio::test]
async fn only_the_socket_for_managed_envoys_admits_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let bound = bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    assert_eq!(bound.managed_address(), *bound.address());
    let bound = bound.with_managed_socket(path.clone()).unwrap();
    assert_eq!(bound.managed_address(), Address::Unix(path.clone()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let reachable = bound.reachable();
    let mut server = Server::on(bound);
    server.publish(FLEET, "CDS a=1");
    let id = managed_node_id(FLEET);

    let refused = server.delta(&id).await.end().await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("--node-id"), "{refused}");
    let mut own = server.delta("own").await;
    own.requests("CDS").await;
    own.accepts("CDS +a=1").await;
    let Notice::Connected(envoy, _) = server.notice().await else { panic!("not connected") };
    assert_eq!((&*envoy.node, &*envoy.build), ("own", UNMANAGED_BUILD));
    server.reports("own", "ACK CDS a=1").await;
    let mut managed = connected(&path, &id).await;
    managed.accepts("CDS +a=1").await;
    let Notice::Connected(envoy, _) = server.notice().await else { panic!("not connected") };
    assert_eq!((&*envoy.node, &*envoy.build), (&*id, ""));
    server.reports(&id, "ACK CDS a=1").await;

    std::fs::remove_file(&path).unwrap();
    assert!(reachable.failure().unwrap().contains("will be created again"));
    comes_to(&reachable, None).await;
    connected(&path, &id).await.accepts("CDS +a=1").await;
    drop((own, managed));
    server.stop();
    soon(&mut server.ended).await.unwrap().unwrap();
    assert!(!path.exists(), "it goes with its server");
}
