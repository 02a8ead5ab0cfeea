//! Small servers for the services that Envoy calls: external authorization, JWT providers, rate limits, external
//! processing, OAuth 2.0, access logs.
//!
//! Each server listens on a free loopback port until it is dropped.

pub mod auth;
pub mod limits;
pub mod login;
pub mod logs;
pub mod processing;
pub mod tokens;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server that ends when the value is dropped.
#[derive(Debug)]
struct RunningServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn bind() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Answers requests over HTTP/1 and HTTP/2.
async fn answering(
    answer: impl Fn(&Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static,
) -> Result<RunningServer> {
    let (listener, address) = bind().await?;
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            connections.spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        Ok::<_, hyper::Error>(answer(&Request::from_parts(head, body)))
                    }
                });
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(RunningServer { address, task })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
