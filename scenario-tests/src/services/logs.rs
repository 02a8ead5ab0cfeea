//! An access log service over gRPC (ALS), to which Envoys send their access logs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use envoy_types::pb::envoy::service::accesslog::v3::access_log_service_server::{
    AccessLogService, AccessLogServiceServer,
};
use envoy_types::pb::envoy::service::accesslog::v3::stream_access_logs_message::LogEntries;
use envoy_types::pb::envoy::service::accesslog::v3::{StreamAccessLogsMessage, StreamAccessLogsResponse};
use tokio_stream::wrappers::TcpListenerStream;

use super::{RunningServer, lock};

/// One entry of an access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogEntry {
    /// The name of the log.
    pub log: String,
    /// The request path.
    pub path: String,
    /// The status of the response.
    pub status: u32,
    /// The logged request headers.
    pub headers: Vec<(String, String)>,
}

/// An access log service.
#[derive(Debug)]
pub struct LogServer {
    running: RunningServer,
    lines: Arc<Mutex<Vec<AccessLogEntry>>>,
}

impl LogServer {
    /// Starts a service.
    pub async fn start() -> Result<Self> {
        let (listener, address) = super::bind().await?;
        let lines = Arc::<Mutex<Vec<AccessLogEntry>>>::default();
        let server = AccessLogServiceServer::new(AccessLogGrpc { lines: lines.clone() });
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let _ = tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming).await;
        });
        Ok(Self { running: RunningServer { address, task }, lines })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// The entries so far.
    pub fn lines(&self) -> Vec<AccessLogEntry> {
        lock(&self.lines).clone()
    }
}

struct AccessLogGrpc {
    lines: Arc<Mutex<Vec<AccessLogEntry>>>,
}

#[tonic::async_trait]
impl AccessLogService for AccessLogGrpc {
    async fn stream_access_logs(
        &self,
        request: tonic::Request<tonic::Streaming<StreamAccessLogsMessage>>,
    ) -> Result<tonic::Response<StreamAccessLogsResponse>, tonic::Status> {
        let mut messages = request.into_inner();
        let mut log = String::new();
        while let Some(message) = messages.message().await? {
            // Only the first message of a stream has the name of the log.
            if let Some(identifier) = message.identifier {
                log = identifier.log_name;
            }
            let Some(LogEntries::HttpLogs(entries)) = message.log_entries else { continue };
            for entry in entries.log_entry {
                let (request, response) = (entry.request.unwrap_or_default(), entry.response.unwrap_or_default());
                let mut headers: Vec<_> = request.request_headers.into_iter().collect();
                headers.sort();
                let status = response.response_code.map(|code| code.value).unwrap_or_default();
                lock(&self.lines).push(AccessLogEntry { log: log.clone(), path: request.path, status, headers });
            }
        }
        Ok(tonic::Response::new(StreamAccessLogsResponse::default()))
    }
}
