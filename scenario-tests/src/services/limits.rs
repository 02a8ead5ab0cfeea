//! A rate limit service: a fixed number of requests per descriptor.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tokio_stream::wrappers::TcpListenerStream;

use super::{RunningServer, lock};

/// Number of requests per descriptor, as `domain: key=value, key=value`.
type RequestCounts = Arc<Mutex<BTreeMap<String, u64>>>;

/// A rate limit service.
#[derive(Debug)]
pub struct Limiter {
    running: RunningServer,
    counts: RequestCounts,
}

impl Limiter {
    /// Starts a service that allows `most` requests per descriptor.
    pub async fn start(most: u64) -> Result<Self> {
        let (listener, address) = super::bind().await?;
        let counts = RequestCounts::default();
        let server = RateLimitServiceServer::new(RateLimitGrpc { counts: counts.clone(), most });
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let _ = tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming).await;
        });
        Ok(Self { running: RunningServer { address, task }, counts })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Number of requests per descriptor so far.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.counts).clone()
    }
}

struct RateLimitGrpc {
    counts: RequestCounts,
    most: u64,
}

#[tonic::async_trait]
impl RateLimitService for RateLimitGrpc {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let request = request.into_inner();
        let mut over = false;
        for descriptor in &request.descriptors {
            let entries = descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
            let name = format!("{}: {}", request.domain, entries.collect::<Vec<_>>().join(", "));
            let mut counts = lock(&self.counts);
            let count = counts.entry(name).or_default();
            *count += 1;
            over |= *count > self.most;
        }
        let code = if over { Code::OverLimit } else { Code::Ok };
        Ok(tonic::Response::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}
