//! Leader election with a Lease: reads, acquires and renews it, so that only one replica writes statuses and Events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use prometheus::IntGauge;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::denials::Denials;
use crate::leadership::{Election, HELD_MS, LEADS_MS, LeaseRecord, LeaseStep, RENEW_MS};

/// Timeout of a request; together with [`LEADS_MS`] it is shorter than the lease duration.
pub(crate) const API_REQUEST_TIME_MAX: Duration = Duration::from_secs(4);
/// The lease duration in the record, in seconds.
const HELD_SECONDS: i32 = 15;

/// The message if the Lease must not be read or written.
const NO_LEASE: &str = "the permission to get, create and update leases of the API group coordination.k8s.io is \
                        missing: no leader is known, and no statuses and Events are written; the roles of the chart \
                        grant the permission";

const _: () = assert!(HELD_SECONDS as u64 * 1000 == HELD_MS && LEADS_MS + 4_000 < HELD_MS);

/// The leader, as far as this replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaderState {
    /// Unknown.
    Unknown,
    /// Another replica; with the number of its renewals that were seen.
    Follows(u64),
    /// This replica, until then.
    Leads(Instant),
}

/// Whether this replica leads. Clones share the state.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<LeaderState>);

impl Leadership {
    /// Returns whether this replica leads at this moment.
    pub fn leads(&self) -> bool {
        matches!(*self.0.borrow(), LeaderState::Leads(until) if Instant::now() < until)
    }

    /// Waits until the leadership changes; forever if it no longer can.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns whether another replica led, and was alive, at the last change.
    pub(crate) fn follows(&self) -> bool {
        matches!(*self.0.borrow(), LeaderState::Follows(_))
    }
}

/// The leader election of this replica.
pub struct Leader {
    api: Api<Lease>,
    name: String,
    me: Arc<str>,
    election: Election,
    state: watch::Sender<LeaderState>,
    renewals: u64,
    gauge: IntGauge,
    denials: Denials,
    /// Is called for each answer of the API server.
    on_answer: Box<dyn Fn() + Send + Sync>,
    started: Instant,
    failing: bool,
}

impl Leader {
    /// The election for a Lease, and the handle that shows whether this replica leads. `on_answer` is called for each
    /// answer of the API server.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        me: Arc<str>,
        gauge: IntGauge,
        denials: Denials,
        on_answer: impl Fn() + Send + Sync + 'static,
    ) -> (Self, Leadership) {
        let (state, leadership) = watch::channel(LeaderState::Unknown);
        let leader = Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            election: Election::new(me.clone()),
            me,
            state,
            renewals: 0,
            gauge,
            denials,
            on_answer: Box::new(on_answer),
            started: Instant::now(),
            failing: false,
        };
        (leader, Leadership(leadership))
    }

    /// Runs until the product ends, then releases the Lease.
    pub fn start(mut self, mut ending: watch::Receiver<bool>) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                let again = tokio::select! {
                    _ = ending.wait_for(|ending| *ending) => break,
                    again = self.round() => again,
                };
                tokio::select! {
                    _ = ending.wait_for(|ending| *ending) => break,
                    () = sleep(again) => {}
                }
            }
            self.give_up().await;
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads the Lease, and writes it if due; returns the time to wait before the next round.
    async fn round(&mut self) -> Duration {
        let outcome = self.look().await;
        // A rejected request is an answer too.
        if matches!(outcome, Ok(()) | Err(Error::Api(_))) {
            (self.on_answer)();
        }
        self.publish();
        match outcome {
            Ok(()) => {
                self.failing = false;
                self.denials.allowed("leases");
                Duration::from_millis(RENEW_MS)
            }
            Err(Error::Api(status)) if status.code == 403 => {
                self.denials.denied("leases", NO_LEASE);
                Duration::from_millis(RENEW_MS)
            }
            // Another client wrote the Lease: the next round starts at once.
            Err(Error::Api(status)) if status.code == 409 => {
                self.election.lost();
                self.publish();
                Duration::from_millis(50)
            }
            Err(error) => {
                if !self.failing {
                    tracing::warn!(lease = self.name, %error, "cannot read or write the Lease: no leader is known, \
                                                               and no statuses and Events are written");
                }
                self.failing = true;
                Duration::from_millis(RENEW_MS)
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        let lease = within(self.api.get_opt(&self.name)).await?;
        let record = lease.as_ref().map(record);
        let known = self.election.holder().cloned();
        let now = self.now_ms();
        if self.is_renewed(record.as_ref()) {
            self.renewals += 1;
        }
        match self.election.see(record, now) {
            LeaseStep::Wait => {
                if let Some(holder) = self.election.holder().filter(|holder| known.as_ref() != Some(holder)) {
                    tracing::info!(leader = %holder, "another replica leads: it writes statuses and Events");
                }
                Ok(())
            }
            LeaseStep::Write { transitions, takes } => {
                let begun = self.now_ms();
                self.write(lease, &self.me, transitions, takes).await?;
                self.election.wrote(begun);
                if takes {
                    tracing::info!(lease = self.name, holder = %self.me, "this replica leads: it writes statuses and \
                                                                          Events");
                }
                Ok(())
            }
        }
    }

    /// Returns whether the record is of another replica and was not seen before.
    fn is_renewed(&self, record: Option<&LeaseRecord>) -> bool {
        record.is_some_and(|record| record.holder != self.me && !self.election.knows(record))
    }

    fn publish(&mut self) {
        let now = self.now_ms();
        let state = match self.election.leads_until(now) {
            Some(until_ms) => LeaderState::Leads(self.started + Duration::from_millis(until_ms)),
            None if self.election.holder().is_some_and(|holder| !holder.is_empty() && *holder != self.me) => {
                LeaderState::Follows(self.renewals)
            }
            None => LeaderState::Unknown,
        };
        self.gauge.set(i64::from(matches!(state, LeaderState::Leads(_))));
        self.state.send_if_modified(|known| {
            let changed = *known != state;
            *known = state;
            changed
        });
    }

    async fn write(&self, lease: Option<Lease>, holder: &str, transitions: i32, takes: bool) -> Result<(), Error> {
        let now = MicroTime(Timestamp::now());
        let is_new = lease.is_none();
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let before = lease.spec.take().unwrap_or_default();
        let acquired = before.acquire_time.clone().filter(|_| !takes).unwrap_or_else(|| now.clone());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(HELD_SECONDS),
            lease_transitions: Some(transitions),
            acquire_time: Some(acquired),
            renew_time: Some(now),
            ..before
        });
        let params = PostParams::default();
        // The request includes the resource version that was read: of two concurrent writes the API server rejects one.
        if is_new {
            within(self.api.create(&params, &lease)).await.map(drop)
        } else {
            within(self.api.replace(&self.name, &params, &lease)).await.map(drop)
        }
    }

    /// Releases the Lease, so that the next leader need not wait.
    async fn give_up(&mut self) {
        let led = self.election.leads(self.now_ms());
        self.election.lost();
        self.state.send_replace(LeaderState::Unknown);
        if !led {
            return;
        }
        let Ok(Some(lease)) = within(self.api.get_opt(&self.name)).await else { return };
        let record = record(&lease);
        if record.holder == self.me && self.write(Some(lease), "", record.transitions, false).await.is_ok() {
            tracing::info!(lease = self.name, "this replica no longer leads");
        }
    }
}

/// The result of a request, with a timeout.
pub async fn within<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(API_REQUEST_TIME_MAX, request)
        .await
        .unwrap_or_else(|_| Err(Error::Service("the API server did not answer within 4 seconds".into())))
}

fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default().into(),
        held_ms: seconds.saturating_mul(1000),
        transitions: spec.lease_transitions.unwrap_or_default(),
        stamp: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
