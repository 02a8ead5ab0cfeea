//! What the machine needs for the same work without Holdfast: notice of an edit, and a response over gRPC.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures::{Stream, StreamExt};
use notify::{RecursiveMode, Watcher};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::fixture::{Fixture, Source};
use crate::objects::Edited;
use crate::percentiles::{Percentiles, milliseconds};
use crate::report::Floors;
use crate::{watched, wire};

/// Pause between two rounds: as for edits, the processor is idle before each.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// Time for the machine to do anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Measures all floors while Holdfast does not run; `response` is that of an edit.
pub(crate) async fn measure(
    fixture: &Fixture<'_>,
    edited: &mut Edited,
    response: DeltaDiscoveryResponse,
    rounds: usize,
) -> Result<Floors> {
    let read_milliseconds = milliseconds(read(fixture).await?);
    let notices = match &fixture.source {
        Source::Folder => {
            let text = fs::read(fixture.edited_path())?;
            tokio::task::block_in_place(|| notices(fixture.world.folder(), &text, rounds))?
        }
        Source::ApiServer(server) => watched::notices(fixture, server, edited, rounds).await?,
    };
    let notice_milliseconds = Percentiles::of(&notices);
    let echo_milliseconds = Percentiles::of(&echoes(response, rounds).await?);
    Ok(Floors { notice_milliseconds, echo_milliseconds, read_milliseconds })
}

/// Returns the time of reading all objects.
async fn read(fixture: &Fixture<'_>) -> Result<Duration> {
    match &fixture.source {
        Source::Folder => {
            let files = fixture.files()?;
            let began = Instant::now();
            for file in &files {
                fs::read(file)?;
            }
            Ok(began.elapsed())
        }
        Source::ApiServer(server) => {
            let began = Instant::now();
            server.list().await?;
            Ok(began.elapsed())
        }
    }
}

/// Returns the times from the rename of a file in this folder until inotify has reported it and it is read.
fn notices(folder: &Path, text: &[u8], rounds: usize) -> Result<Vec<Duration>> {
    let (watched, draft) = (folder.join("watched"), folder.join("draft"));
    fs::create_dir(&watched)?;
    let target = watched.join("file.yaml");
    let (reports, reported) = std::sync::mpsc::channel();
    let mut watcher = notify::recommended_watcher(reports)?;
    watcher.watch(&watched, RecursiveMode::Recursive)?;
    let mut times = Vec::new();
    for _ in 0..=rounds {
        fs::write(&draft, text)?;
        let began = Instant::now();
        fs::rename(&draft, &target)?;
        reported.recv_timeout(LIMIT).context("inotify does not report a file")??;
        let read = fs::read(&target)?;
        times.push(began.elapsed());
        ensure!(read == text, "another process has written {}", target.display());
        std::thread::sleep(PAUSE);
        // A rename has several events, and so has a read.
        while reported.try_recv().is_ok() {}
    }
    Ok(without_first(times))
}

/// Returns the times of a request over gRPC on loopback to which `response` is the response.
async fn echoes(response: DeltaDiscoveryResponse, rounds: usize) -> Result<Vec<Duration>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = AggregatedDiscoveryServiceServer::new(Echo(Arc::new(response)));
    let server = tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    let mut client = wire::open(port, Arc::new(AtomicU64::new(0))).await?;
    let (requests, receiver) = unbounded_channel();
    let mut responses = client.delta_aggregated_resources(UnboundedReceiverStream::new(receiver)).await?.into_inner();
    let mut times = Vec::new();
    for _ in 0..=rounds {
        let began = Instant::now();
        requests.send(DeltaDiscoveryRequest::default())?;
        let answered = tokio::time::timeout(LIMIT, responses.message()).await?;
        answered?.context("the stream of the echo ended")?;
        times.push(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    server.abort();
    Ok(without_first(times))
}

/// Omits the first round, in which connections are opened and memory is allocated: a floor is what every round needs.
pub(crate) fn without_first(mut times: Vec<Duration>) -> Vec<Duration> {
    times.drain(..1.min(times.len()));
    times
}

/// A server that answers every request with the same response.
struct Echo(Arc<DeltaDiscoveryResponse>);

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Echo {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("delta only"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let response = self.0.clone();
        let responses = request.into_inner().map(move |request| request.map(|_| (*response).clone()));
        Ok(Response::new(Box::pin(responses)))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_scenario_tests::World;

    use crate::report::VirtualHosts;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn floors_of_large_responses_are_measured() -> Result<()> {
        let world = World::new()?;
        let fixture = Fixture::write(&world, 1, (Ipv4Addr::LOCALHOST, 9).into(), VirtualHosts::Whole)?;
        let response = DeltaDiscoveryResponse { nonce: "n".repeat(5 << 20), ..Default::default() };
        let floors = measure(&fixture, &mut Edited::default(), response, 2).await?;
        assert!(floors.read_milliseconds > 0.0, "{floors:?}");
        assert!(floors.notice_milliseconds.p50 > 0.0 && floors.echo_milliseconds.p50 > 0.0, "{floors:?}");
        Ok(())
    }
}
