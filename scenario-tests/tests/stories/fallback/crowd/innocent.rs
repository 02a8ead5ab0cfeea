//! The innocent namespace: edits of every sort in turn, each measured until the first correct response.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::{Holdfast, World, until};
use serde_json::Value;

use super::durations::Durations;
use super::row::{BACKENDS, policy, route_of};

/// The innocent namespace.
pub(super) const INNOCENT: &str = "innocent";
/// Pause before each edit.
const REST: Duration = Duration::from_millis(100);
/// How long a broken route stays broken before its repair.
const BROKEN: Duration = Duration::from_millis(500);
/// Interval between two requests.
const POLL: Duration = Duration::from_millis(5);
/// The name of the route that is edited.
const EDITED: &str = "edited";

/// The sorts of edits, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InnocentEdit {
    Backend,
    AddedHeader,
    Hostname,
    NewRoute,
    NewGuard,
    ChangedGuard,
    Repair,
    Deletion,
}

impl InnocentEdit {
    /// All sorts.
    pub(super) const ALL: [Self; 8] = [
        Self::Backend,
        Self::AddedHeader,
        Self::Hostname,
        Self::NewRoute,
        Self::NewGuard,
        Self::ChangedGuard,
        Self::Repair,
        Self::Deletion,
    ];
}

/// The innocent namespace.
pub(super) struct Innocent {
    world: World,
    port: u16,
    edit_max: Duration,
    /// Number of edits so far.
    edits: usize,
    backend: usize,
    /// The value of the header that the route adds.
    header: usize,
    /// The number in the hostname.
    host: usize,
    /// The number in the name and the path of the new route. They are different in each turn: a deleted policy still
    /// guards a new route of the same name for a moment.
    fresh: usize,
}

fn is_pod(reply: &Reply, pod: &str) -> bool {
    reply.pod().is_ok_and(|answered| answered == pod)
}

impl Innocent {
    /// Writes the route that is edited.
    pub(super) fn new(world: &World, port: u16, edit_max: Duration) -> Result<Self> {
        let innocent =
            Self { world: world.clone(), port, edit_max, edits: 0, backend: 0, header: 0, host: 0, fresh: 0 };
        innocent.write_edited("PathPrefix, value: /innocent")?;
        Ok(innocent)
    }

    /// Waits until the route is served as written.
    pub(super) async fn is_served(&self) -> Result<()> {
        until("the innocent route is served", || async {
            let reply = self.edited().send().await?;
            ensure!(self.is_as_written(&reply), "the answer was {reply:?}");
            Ok(())
        })
        .await
    }

    /// Makes the next edit; records its sort and how long it took.
    pub(super) async fn next_edit(&mut self, holdfast: &Holdfast, durations: &mut Durations) -> Result<()> {
        tokio::time::sleep(REST).await;
        let sort = InnocentEdit::ALL[self.edits % InnocentEdit::ALL.len()];
        self.edits += 1;
        let took = match sort {
            InnocentEdit::Backend | InnocentEdit::AddedHeader | InnocentEdit::Hostname => self.edit(sort).await?,
            InnocentEdit::NewRoute => self.new_route().await?,
            InnocentEdit::NewGuard => self.guard(1).await?,
            InnocentEdit::ChangedGuard => self.guard(2).await?,
            InnocentEdit::Repair => self.repair().await?,
            InnocentEdit::Deletion => self.deletion().await?,
        };
        if took.is_none() {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            durations.reports.extend(reported(&report).map(|report| format!("{sort:?}: {report}")));
        }
        durations.add(sort, took);
        Ok(())
    }

    fn write_edited(&self, path: &str) -> Result<()> {
        let spec = format!(
            "hostnames: [h{}.example]\nrules:\n- matches: [{{path: {{type: {path}}}}}]\n  filters: [{{type: \
             RequestHeaderModifier, requestHeaderModifier: {{add: [{{name: x-added, value: '{}'}}]}}}}]\n  backendRefs: \
             [{{name: {}, port: 8080}}]\n",
            self.host, self.header, BACKENDS[self.backend]
        );
        self.world.write("innocent-edited.yaml", route_of(INNOCENT, EDITED, &spec))
    }

    fn edited(&self) -> HttpRequest {
        get(self.port, "/innocent").host(&format!("h{}.example", self.host))
    }

    fn is_as_written(&self, reply: &Reply) -> bool {
        let value = self.header.to_string();
        reply.echo().is_ok_and(|echo| echo.identity.pod == BACKENDS[self.backend] && echo.header("x-added") == [value])
    }

    async fn edit(&mut self, sort: InnocentEdit) -> Result<Option<Duration>> {
        match sort {
            InnocentEdit::Backend => self.backend = (self.backend + 1) % BACKENDS.len(),
            InnocentEdit::AddedHeader => self.header += 1,
            _ => self.host += 1,
        }
        self.write_edited("PathPrefix, value: /innocent")?;
        Ok(self.answered(&[self.edited()], |replies| self.is_as_written(&replies[0])).await)
    }

    async fn repair(&mut self) -> Result<Option<Duration>> {
        self.write_edited("RegularExpression, value: '/innocent('")?;
        tokio::time::sleep(BROKEN).await;
        self.header += 1;
        self.write_edited("PathPrefix, value: /innocent")?;
        Ok(self.answered(&[self.edited()], |replies| self.is_as_written(&replies[0])).await)
    }

    /// The name of the route that is created, guarded and deleted.
    fn fresh_name(&self) -> String {
        format!("fresh{}", self.fresh)
    }

    fn path_of_fresh(&self) -> String {
        format!("/{}", self.fresh_name())
    }

    fn fresh_route(&self) -> String {
        let spec = format!(
            "rules:\n- matches: [{{path: {{type: PathPrefix, value: {}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]\n",
            self.path_of_fresh()
        );
        route_of(INNOCENT, &self.fresh_name(), &spec)
    }

    async fn new_route(&mut self) -> Result<Option<Duration>> {
        self.fresh += 1;
        self.world.write("innocent-fresh.yaml", self.fresh_route())?;
        let request = get(self.port, &self.path_of_fresh());
        Ok(self.answered(&[request], |replies| is_pod(&replies[0], "echo")).await)
    }

    /// Guards the new route with a key. A correct response needs the key, and without it access is denied.
    async fn guard(&self, number: usize) -> Result<Option<Duration>> {
        let key = format!("key-{}-{number}", self.fresh);
        let secret = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: keys{number}, namespace: {INNOCENT}}}, stringData: {{client: {key}}}}}"
        );
        let spec = format!("apiKeyAuth: {{secretRef: {{name: keys{number}}}}}\n");
        self.world.write("innocent-guard.yaml", documents(&[secret, policy(INNOCENT, &self.fresh_name(), &spec)]))?;
        let request = get(self.port, &self.path_of_fresh());
        let requests = [request.clone(), request.header("api-key", &key)];
        let is_guarded = |replies: &[Reply]| replies[0].status.as_u16() == 401 && is_pod(&replies[1], "echo");
        Ok(self.answered(&requests, is_guarded).await)
    }

    async fn deletion(&self) -> Result<Option<Duration>> {
        self.world.delete("innocent-fresh.yaml")?;
        self.world.delete("innocent-guard.yaml")?;
        let request = get(self.port, &self.path_of_fresh());
        Ok(self.answered(&[request], |replies| replies[0].status.as_u16() == 404).await)
    }

    /// Repeats the requests until their responses are right, and returns how long it took; `None` if they never are.
    async fn answered(&self, requests: &[HttpRequest], is_right: impl Fn(&[Reply]) -> bool) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < self.edit_max {
            let mut replies = Vec::new();
            for request in requests {
                replies.extend(request.send().await.ok());
            }
            if replies.len() == requests.len() && is_right(&replies) {
                return Some(began.elapsed());
            }
            tokio::time::sleep(POLL).await;
        }
        None
    }
}

/// Returns what the fallback page reports about the innocent namespace.
fn reported(page: &Value) -> impl Iterator<Item = String> {
    let broken = page["brokenObjects"].as_array().into_iter().flatten();
    broken.filter(|object| object["namespace"] == INNOCENT).map(|object| {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        format!("{} {} is {}: {}", text("kind"), text("name"), text("detectedBy"), text("message"))
    })
}
