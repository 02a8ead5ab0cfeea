//! Rounds: policies at every level are broken and corrected, one after the other, under continuous unauthorized
//! requests on new and existing connections.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected, small_binary};
use holdfast_scenario_tests::request::HttpRequest;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, World, until};

use super::gates::GateCombination;
use super::guard::{ProtectingField, REFUSED_CONNECTION, guard};
use super::level::{AttachmentLevel, RoutesByLevel};
use super::plan::Round;
use super::tls::PolicyKind;

/// The ways to break a policy.
pub(super) const WAYS: [PolicyBreakage; 3] = [PolicyBreakage::Missing, PolicyBreakage::Bad, PolicyBreakage::Refused];
/// Number of edits of each policy without waiting between them.
const HASTY: usize = 4;
/// Minimum number of edits in a round.
const EDITS_MIN: usize = 50;
/// The cells at which Holdfast is killed and terminated.
const KILLED_AT: usize = 1;
const ENDED_AT: usize = 3;

/// A way to break a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyBreakage {
    /// An object that it refers to is missing.
    Missing,
    /// It cannot be enforced as written.
    Bad,
    /// Only Envoy refuses it.
    Refused,
}

/// A policy at a level.
struct Cell {
    level: AttachmentLevel,
    guard: ProtectingField,
    passing: Option<HttpRequest>,
    failing: HttpRequest,
}

/// The running processes and the state of a story.
struct Works {
    world: World,
    estate: RoutesByLevel,
    gates: GateCombination,
    options: HoldfastOptions,
    holdfast: Option<Holdfast>,
    envoys: Vec<RunningEnvoy>,
    edits: usize,
}

/// Runs the rounds of one combination of gates, all with the same Envoys.
pub(super) async fn run(world: &World, gates: GateCombination, rounds: &[Round]) -> Result<()> {
    let _backends = (world.backend("echo").await?, world.backend("broad").await?);
    let mut works = Works::start(world, gates).await?;
    for round in rounds {
        works.round(round).await?;
    }
    let least = EDITS_MIN * rounds.len();
    ensure!(works.edits >= least, "{} edits instead of {least}", works.edits);
    Ok(())
}

impl Works {
    async fn start(world: &World, gates: GateCombination) -> Result<Self> {
        let estate = RoutesByLevel::write(world)?;
        let flags = gates.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let binary = small_binary(world)?.display().to_string();
        let options = HoldfastOptions::new(world)?.without_envoy().args(&flags).env("ENVOY_BIN", &binary);
        let holdfast = world.run_with(options.clone()).await?;
        let mut envoys = Vec::new();
        for gateway in RoutesByLevel::GATEWAYS {
            let node = gateway.replace('/', "-");
            let envoy = FleetEnvoy { gateway, ..FleetEnvoy::secretly_small(&node) };
            envoys.push(envoy.start(world, &options).await?);
        }
        Ok(Self { world: world.clone(), estate, gates, options, holdfast: Some(holdfast), envoys, edits: 0 })
    }

    async fn round(&mut self, round: &Round) -> Result<()> {
        let mut cells = Vec::new();
        for (level, field) in round {
            let what = format!("{field} at {level:?} under {:?}", self.gates);
            cells.push((self.attach(*level, field).await.with_context(|| what.clone())?, what));
        }
        // Its connections exist since before the first edit.
        let steady = cells.iter().filter(|(cell, _)| cell.guard.slack == 0);
        let steady = Hammer::start_kept_in_turn(steady.map(|(cell, _)| cell.failing.clone()));
        for (at, (cell, what)) in cells.iter().enumerate() {
            self.cell(at, cell).await.with_context(|| what.clone())?;
        }
        steady.stop_expecting(|shot| !shot.passed()).await.context("on old connections")?;
        for (cell, _) in &cells {
            self.estate.without_policy(cell.level)?;
        }
        Ok(())
    }

    /// Adds a policy where there was none: existing connections are guarded as well.
    async fn attach(&mut self, level: AttachmentLevel, field: &str) -> Result<Cell> {
        let guard = guard(field, level, &self.world).await?;
        if !guard.fixtures.is_empty() {
            self.estate.write_fixtures(level, &guard.fixtures)?;
        }
        let request = self.estate.request(level);
        let (passing, failing) =
            (guard.passing.as_ref().map(|change| change(request.clone())), (guard.failing)(request));
        let cell = Cell { level, guard, passing, failing };
        let mut old = None;
        if level == AttachmentLevel::Named {
            cell.failing.comes_to_answer(level.closed()).await?;
        } else {
            cell.failing.comes_to_reach("echo").await?;
            let mut connection = cell.failing.connect().await?;
            cell.failing.send_on(&mut connection).await?.from_pod("echo")?;
            old = Some(connection);
        }
        self.mend(&cell).await?;
        if let Some(mut connection) = old.filter(|_| cell.guard.slack == 0)
            && let Ok(reply) = cell.failing.send_on(&mut connection).await
        {
            ensure!(reply.pod().is_err(), "on an old connection {} passes: {reply:?}", cell.failing.line());
        }
        Ok(cell)
    }

    async fn cell(&mut self, at: usize, cell: &Cell) -> Result<()> {
        let before = self.edits;
        let hammers = [Hammer::start([cell.failing.clone()]), Hammer::start_kept([cell.failing.clone()])];
        for way in WAYS {
            self.broken(cell, way).await.with_context(|| format!("broken: {way:?}"))?;
            if at == KILLED_AT && way == PolicyBreakage::Bad {
                let options = self.holdfast.take().context("it does not run")?.kill()?;
                self.again(options).await?;
                self.is_broken(cell, way).await.context("after it was killed")?;
            }
            if at == ENDED_AT && way == PolicyBreakage::Refused {
                self.holdfast.take().context("it does not run")?.terminate().await?.expect_code(0)?;
                self.write_broken(cell, PolicyBreakage::Bad)?;
                self.again(self.options.clone()).await?;
                self.is_broken(cell, PolicyBreakage::Bad).await.context("after it ended")?;
            }
            for hammer in &hammers {
                hammer.goes_on(5).await?;
            }
            self.mend(cell).await.with_context(|| format!("mended after {way:?}"))?;
        }
        for edit in 0..HASTY {
            match WAYS.get(edit / 2) {
                Some(way) if edit % 2 == 0 => self.write_broken(cell, *way)?,
                _ => self.write_whole(cell)?,
            }
            hammers[0].goes_on(2).await?;
        }
        self.mend(cell).await.context("after hasty edits")?;
        let may = cell.guard.slack * u64::try_from(self.edits - before)?;
        for hammer in hammers {
            let seen = hammer.stop().await;
            let passed: u64 = seen.iter().filter(|(shot, _)| shot.passed()).map(|(_, times)| times).sum();
            ensure!(passed <= may, "{passed} requests passed that must not: {seen:?}");
        }
        Ok(())
    }

    async fn again(&mut self, options: HoldfastOptions) -> Result<()> {
        let holdfast = self.world.run_with(options).await?;
        connected(&holdfast, self.envoys.len()).await?;
        self.holdfast = Some(holdfast);
        Ok(())
    }

    fn write_whole(&mut self, cell: &Cell) -> Result<()> {
        self.edits += 1;
        if !cell.guard.besides.is_empty() {
            self.estate.besides(cell.level, &cell.guard.besides)?;
        }
        self.estate.policy_of(cell.guard.kind, cell.level, &cell.guard.spec)
    }

    fn write_broken(&mut self, cell: &Cell, way: PolicyBreakage) -> Result<()> {
        self.edits += 1;
        let write_policy = |spec: &str| self.estate.policy_of(cell.guard.kind, cell.level, spec);
        match way {
            PolicyBreakage::Missing if !cell.guard.besides.is_empty() => self.estate.without_besides(cell.level),
            PolicyBreakage::Missing => write_policy(&cell.guard.missing_spec()),
            PolicyBreakage::Bad => write_policy(&cell.guard.bad),
            PolicyBreakage::Refused => write_policy(&cell.guard.refused),
        }
    }

    async fn broken(&mut self, cell: &Cell, way: PolicyBreakage) -> Result<()> {
        self.write_broken(cell, way)?;
        self.is_broken(cell, way).await
    }

    /// Checks that the fault is reported, and that no unauthorized request passes.
    async fn is_broken(&self, cell: &Cell, way: PolicyBreakage) -> Result<()> {
        self.comes_to_report(true).await?;
        if way != PolicyBreakage::Refused && self.gates.closes() {
            for request in cell.passing.iter().chain([&cell.failing]) {
                request.comes_to_answer(cell.level.closed()).await?;
            }
        } else if cell.guard.slack == 0 {
            let reply = cell.failing.send().await;
            // Where TLS protects, the connection may be refused.
            ensure!(reply.is_ok() || cell.guard.kind == PolicyKind::Listener, "{reply:?}");
            ensure!(
                reply.as_ref().map_or(true, |reply| reply.pod().is_err()),
                "{} passes: {reply:?}",
                cell.failing.line()
            );
        }
        Ok(())
    }

    /// Corrects the policy, and waits until allowed and denied requests are answered as before.
    async fn mend(&mut self, cell: &Cell) -> Result<()> {
        self.write_whole(cell)?;
        if let Some(passing) = &cell.passing {
            passing.comes_to_reach("echo").await?;
        }
        if cell.guard.status == REFUSED_CONNECTION {
            until("the connection is refused", || async {
                let reply = cell.failing.send().await;
                ensure!(reply.is_err(), "it is served: {reply:?}");
                Ok(())
            })
            .await?;
        } else {
            cell.failing.comes_to_answer(cell.guard.status).await?;
        }
        self.comes_to_report(false).await
    }

    /// Waits until the fallback report is final and shows whether anything is broken.
    async fn comes_to_report(&self, broken: bool) -> Result<()> {
        let holdfast = self.holdfast.as_ref().context("it does not run")?;
        let outcome = until(if broken { "it says what is broken" } else { "it says that all is well" }, || async {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            let gateways = report["gateways"].as_array().context("no Gateways")?;
            let is = |wanted: &str| gateways.iter().any(|gateway| gateway["state"] == wanted);
            let mut reported = report["status"] == "triggered" || is("held");
            if !reported {
                // A missing object does not cause a fallback, but is listed as a fault.
                let faults = holdfast.diagnostics("/debug/faults").await?;
                let faults = faults["faults"].as_array().context("no faults")?;
                let kinds = PolicyKind::ALL.map(PolicyKind::name);
                reported =
                    faults.iter().any(|found| kinds.iter().any(|kind| found["fault"]["object"]["kind"] == *kind));
            }
            ensure!(reported == broken && !is("trying") && !is("probing"), "{report}");
            Ok(())
        })
        .await;
        if outcome.is_err() {
            let envoys = holdfast.diagnostics("/debug/envoys").await?;
            return outcome.with_context(|| format!("{envoys}"));
        }
        outcome
    }
}
