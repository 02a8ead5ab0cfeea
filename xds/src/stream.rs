//! One ADS stream: reads requests, waits for offers to its Envoy, writes responses, reports notices.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};
use tracing::{info, warn};

use crate::admission::Belonging;
use crate::connection::{ClientVerdict, Connection, Protocol, Violation};
use crate::counts::PushCount;
use crate::event_sender::EventSender;
use crate::fleets::{Fleets, Membership, StreamClient};
use crate::identity::IdentityError;
use crate::limits::{FIRST_MESSAGE_TIMEOUT, STREAM_AGE_MAX};
use crate::managed::ManagedClaims;
use crate::peer::Peer;
use crate::wire::{Message, write};
use crate::{Answer, EnvoyId, Notice, Outcome, ResourceType, Version};

/// A request of one of the two variants.
pub(crate) trait Request: prost::Message + Default + 'static {
    const PROTOCOL: Protocol;
    fn node(&self) -> Option<&Node>;
    /// Returns whether the request, as the first message of a stream, reports resources that the client has.
    fn reports_versions(&self) -> bool;
    fn apply(&self, connection: &mut Connection) -> Result<Vec<ClientVerdict>, Violation>;
}

impl Request for DeltaDiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::Delta;
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
    fn reports_versions(&self) -> bool {
        !self.initial_resource_versions.is_empty()
    }
    fn apply(&self, connection: &mut Connection) -> Result<Vec<ClientVerdict>, Violation> {
        connection.on_delta_request(self)
    }
}

impl Request for DiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::Sotw;
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
    fn reports_versions(&self) -> bool {
        !self.version_info.is_empty()
    }
    fn apply(&self, connection: &mut Connection) -> Result<Vec<ClientVerdict>, Violation> {
        connection.on_sotw_request(self)
    }
}

/// Context of every stream.
#[derive(Clone)]
pub(crate) struct StreamContext {
    pub(crate) fleets: Fleets,
    pub(crate) notices: mpsc::Sender<Notice>,
    pub(crate) claims: ManagedClaims,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// The client of a stream.
pub(crate) struct Caller {
    pub(crate) belonging: Belonging,
    pub(crate) peer: Peer,
}

/// Channel for responses; an error ends the stream.
pub(crate) type OutboundSender = mpsc::Sender<Result<Message, Status>>;

/// Runs a stream to its end.
pub(crate) async fn run<R: Request>(
    context: StreamContext,
    caller: Caller,
    mut requests: Streaming<R>,
    outbound: OutboundSender,
) {
    let mut stopping = context.stopping.clone();
    let Caller { belonging, peer } = caller;
    let ended = tokio::select! {
        ended = converse(context, belonging, &peer, &mut requests, &outbound) => ended,
        () = outbound.closed() => Ok(()),
        _ = stopping.wait_for(|stopping| *stopping) => Err(Status::unavailable("the server is stopping")),
    };
    if let Err(status) = ended {
        // An error means that the client is gone.
        let _ = outbound.send(Err(status)).await;
    }
}

async fn converse<R: Request>(
    context: StreamContext,
    belonging: Belonging,
    peer: &Peer,
    requests: &mut Streaming<R>,
    outbound: &OutboundSender,
) -> Result<(), Status> {
    let first = tokio::time::timeout(FIRST_MESSAGE_TIMEOUT, requests.message())
        .await
        .map_err(|_| Status::deadline_exceeded("the first message did not arrive in time"))?;
    let Some(first) = first? else { return Ok(()) };
    let envoy = EnvoyId::of(first.node(), &belonging).map_err(|error| {
        match (error, first.node()) {
            (IdentityError::Managed, Some(node)) => context.claims.log(&node.id, &node.cluster, since_1970()),
            _ => info!(%error, "stream refused"),
        }
        refusal(error)
    })?;
    let EnvoyId { fleet, node, build } = &envoy;
    info!(%fleet, %node, %build, protocol = ?R::PROTOCOL, "Envoy connected");
    let client = StreamClient {
        activity: peer.activity().clone(),
        address: peer.address(),
        is_proven: matches!(belonging, Belonging::Proven(_)),
        connected: now(),
    };
    let mut stream = ClientStream {
        member: context.fleets.join(envoy.clone(), R::PROTOCOL, client),
        sender: EventSender::begin(context.notices, envoy.clone(), first.reports_versions()).await,
        belonging,
        turn: 0,
    };
    let age = age(&stream.belonging, &envoy, stream.member.state.number);
    let ended = tokio::select! {
        ended = stream.serve(first, requests, outbound) => ended,
        () = reached(age) => {
            // The client must connect again and present its current credentials.
            peer.close();
            Err(Status::unavailable("credentials expired: reconnect"))
        }
    };
    match &ended {
        Ok(()) => info!(%fleet, %node, "Envoy disconnected"),
        Err(status) => info!(%fleet, %node, reason = status.message(), "Envoy's stream ended"),
    }
    ended
}

/// The fields are dropped in this order: when a disconnection is reported, the Envoy is no longer in any list.
struct ClientStream {
    member: Membership,
    sender: EventSender,
    belonging: Belonging,
    /// The newest turn up to which refused contents were sent once more.
    turn: u64,
}

/// Returns the lifetime of a stream; unlimited where nothing had to be proven.
fn age(belonging: &Belonging, envoy: &EnvoyId, stream: u64) -> Option<Duration> {
    let Belonging::Proven(admitted) = belonging else { return None };
    let proven = Duration::from_secs(admitted.until).saturating_sub(since_1970());
    Some(proven.min(STREAM_AGE_MAX.mul_f64(1.0 - earlier(envoy, stream))))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the time in seconds of Unix time.
fn now() -> i64 {
    i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX)
}

/// Returns the fraction of its lifetime by which a stream ends earlier, from 0 to 0.1: different for each stream, and
/// deterministic.
fn earlier(envoy: &EnvoyId, stream: u64) -> f64 {
    let mut hash = blake3::Hasher::new();
    hash.update(envoy.fleet.as_bytes()).update(b"\0").update(envoy.node.as_bytes()).update(&stream.to_le_bytes());
    f64::from(hash.finalize().as_bytes()[0]) / 2550.0
}

async fn reached(age: Option<Duration>) {
    match age {
        Some(age) => tokio::time::sleep(age).await,
        None => std::future::pending().await,
    }
}

/// Returns the error for an Envoy with a wrong identity.
fn refusal(error: IdentityError) -> Status {
    match error {
        IdentityError::NotProven | IdentityError::Managed => Status::permission_denied(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

impl ClientStream {
    async fn serve<R: Request>(
        &mut self,
        first: R,
        requests: &mut Streaming<R>,
        outbound: &OutboundSender,
    ) -> Result<(), Status> {
        self.take_in(first).await?;
        let mut may_send = true;
        loop {
            self.compare();
            tokio::select! {
                // All available requests are read before anything is sent: an Envoy that reconnects reports its
                // resources of each type in a separate request, and what is sent depends on all of them.
                biased;
                request = requests.message() => match request? {
                    Some(request) => self.take_in(request).await?,
                    None => return Ok(()),
                },
                offer = self.member.next_offer() => {
                    match offer.edition.fresh_only {
                        true => self.member.state.connection().on_fresh_snapshot(offer.snapshot),
                        false => self.member.state.connection().on_snapshot(offer.snapshot),
                    }
                    for ((kind, name), again) in offer.again.iter().filter(|(_, again)| again.turn > self.turn) {
                        self.member.state.connection().try_again(*kind, name, again.version);
                    }
                    self.turn = self.turn.max(offer.edition.turn);
                    self.report_pending().await;
                }
                permit = outbound.reserve(), if may_send => {
                    let Ok(permit) = permit else { return Ok(()) };
                    // The response is made only now that it can be sent: a slow Envoy gets the newest resources.
                    match self.next_message() {
                        Some(message) => permit.send(Ok(message)),
                        None => may_send = false,
                    }
                    self.report_pending().await;
                    continue;
                }
            }
            may_send = true;
        }
    }

    async fn take_in<R: Request>(&mut self, request: R) -> Result<(), Status> {
        let state = self.member.state.clone();
        let EnvoyId { fleet, node, build } = &state.envoy;
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        state.envoy.check(request.node(), &self.belonging).map_err(refusal)?;
        let verdicts = request.apply(&mut state.connection());
        for ClientVerdict { kind, outcome, resources } in verdicts.map_err(|error| invalid(&error))? {
            self.count(&outcome, kind);
            state.history().answered(kind, &outcome, resources.iter().map(|(name, _)| name), now());
            if let Outcome::Refused { message } = &outcome {
                self.remember_refused(kind, &resources);
                let names: Vec<&str> = resources.iter().take(NAMES_LOGGED).map(|(name, _)| &**name).collect();
                warn!(%fleet, %node, kind = kind.short_name(), count = resources.len(), ?names, message, "refused by Envoy");
            }
            let [fleet, node, build] = [fleet, node, build].map(Arc::clone);
            self.sender.add(Answer { fleet, node, build, kind, outcome, resources });
        }
        self.report_pending().await;
        Ok(())
    }

    /// Records whether the client has everything that it should have.
    fn compare(&self) {
        let is_settled = self.member.state.connection().is_settled();
        self.member.state.history().compared(is_settled, now());
    }

    /// Reports pending notices, including the resources that the client already had.
    async fn report_pending(&mut self) {
        let met = self.member.state.connection().take_met();
        let EnvoyId { fleet, node, build } = &self.member.state.envoy;
        for ClientVerdict { kind, outcome, resources } in met {
            let [fleet, node, build] = [fleet, node, build].map(Arc::clone);
            self.sender.add(Answer { fleet, node, build, kind, outcome, resources });
        }
        // Answers are never dropped: the stream waits for the receiver, unless the receiver was dropped.
        self.sender.flush().await;
    }

    fn remember_refused(&self, kind: ResourceType, resources: &[(Arc<str>, Option<Version>)]) {
        if kind == ResourceType::Secret {
            for (name, version) in resources {
                version.iter().for_each(|version| self.member.secret_refused(name, *version));
            }
        }
    }

    fn count(&self, outcome: &Outcome, kind: ResourceType) {
        let mut count = PushCount::default();
        match outcome {
            Outcome::Acknowledged => count.acknowledged = 1,
            Outcome::Refused { .. } => count.refused = 1,
        }
        self.member.counters.add(kind, count);
    }

    fn next_message(&self) -> Option<Message> {
        let response = self.member.state.connection().next_response()?;
        let message = write(&response, self.member.fleets().encodes());
        let count = PushCount {
            responses: 1,
            resources: response.resources.len() as u64,
            removals: response.removals() as u64,
            bytes: message.length as u64,
            ..PushCount::default()
        };
        self.member.counters.add(response.kind, count);
        Some(message)
    }
}

/// Maximum number of names of refused resources in a log entry.
const NAMES_LOGGED: usize = 8;
