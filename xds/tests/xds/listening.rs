//! Where the server listens, and what it says where it cannot.

use std::os::unix::fs::PermissionsExt;

use holdfast_xds::{Listen, ResourceType, ServeError, bind};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::client::{DeltaClient, Server, snapshot, soon};

#[tokio::test]
async fn a_port_in_use_is_told_by_its_address() {
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
    server.publish("infra/public", snapshot(&[(ResourceType::Cluster, "a", b"")]));
    let mut client = server.delta("e").await;
    client.subscribe(ResourceType::Cluster, &[]).await;
    assert_eq!(client.take().await.resources.len(), 1);
}

#[tokio::test]
async fn a_unix_socket_is_for_its_user_alone_and_goes_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let mut server = Server::on(bind(Listen::Unix(path.clone())).unwrap());
    assert_eq!(server.address.to_string(), format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    server.publish("infra/public", snapshot(&[(ResourceType::Cluster, "a", b"")]));
    let to = path.clone();
    let connector = service_fn(move |_: Uri| {
        let to = to.clone();
        async move { UnixStream::connect(to).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://unix").connect_with_connector(connector).await.unwrap();
    let mut client = DeltaClient::open(channel, "e", "infra/public").await;
    client.subscribe(ResourceType::Cluster, &[]).await;
    assert_eq!(client.take().await.resources[0].name, "a");

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

#[tokio::test]
async fn a_folder_that_does_not_exist_is_told() {
    let error = bind(Listen::Unix("/nonexistent/folder/xds.sock".into())).err().unwrap();
    assert!(error.to_string().starts_with("cannot listen on unix:/nonexistent/folder/xds.sock"), "{error}");
}
