//! Holdfast, the Envoys and the backends of a run; Holdfast and Envoys are killed and started again.

use std::time::Instant;

use anyhow::{Context, Result};
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, World, manifests};

use super::super::unprobed;
use super::row::Row;
use super::state::Shared;

/// The processes.
pub(super) struct Processes {
    world: World,
    shared: Shared,
    /// The port of the Gateway.
    pub(super) port: u16,
    options: HoldfastOptions,
    /// Holdfast, unless it is killed.
    pub(super) holdfast: Option<Holdfast>,
    /// The Envoys, unless they are killed.
    envoys: Vec<(FleetEnvoy, Option<RunningEnvoy>)>,
    /// The Envoy that is stopped (SIGSTOP), if any.
    frozen: Option<usize>,
    _backends: Vec<Echo>,
}

impl Processes {
    /// Writes all objects and starts all processes.
    pub(super) async fn start(world: &World, shared: &Shared, row: Row) -> Result<Self> {
        let port = world.gateway()?;
        let slots = shared.lock().slots.clone();
        let mut backends = Vec::new();
        for slot in &slots {
            for suffix in ["a", "b"] {
                let name = format!("{}-{suffix}", slot.name);
                // Requests are not recorded: a long run has too many.
                let options = EchoOptions { recorded_max: 0, ..EchoOptions::new(slot.namespace, &name, &name) };
                let echo = Echo::start(options).await?;
                let service = manifests::service(slot.namespace, &name, None, &[echo.address()]);
                world.write(&format!("service-{name}.yaml"), service)?;
                backends.push(echo);
            }
            slot.write(world)?;
        }
        let options = unprobed(world, row.flags())?.args(&["--httpproxy-gateway", "default/public"]);
        let envoys = row.envoys().into_iter().map(|envoy| (envoy, None)).collect();
        let (world, shared) = (world.clone(), shared.clone());
        let mut processes =
            Self { world, shared, port, options, holdfast: None, envoys, frozen: None, _backends: backends };
        processes.start_all().await?;
        Ok(processes)
    }

    /// Starts everything that is not up, and waits until Holdfast is ready.
    pub(super) async fn start_all(&mut self) -> Result<()> {
        self.start_holdfast()?;
        self.thaw_envoy();
        for index in 0..self.envoys.len() {
            self.start_envoy(index).await?;
        }
        self.holdfast.as_mut().context("Holdfast is not up")?.comes_to_be_ready().await
    }

    /// Starts Holdfast, if it is not up.
    pub(super) fn start_holdfast(&mut self) -> Result<()> {
        if self.holdfast.is_none() {
            self.holdfast = Some(Holdfast::start(&self.world, self.options.clone())?);
            let mut state = self.shared.lock();
            state.holdfast = Some(Instant::now());
            state.record.add_process("Start", "Holdfast");
        }
        Ok(())
    }

    /// Kills Holdfast, if it is up.
    pub(super) fn kill_holdfast(&mut self) -> Result<()> {
        if let Some(holdfast) = self.holdfast.take() {
            let mut state = self.shared.lock();
            state.holdfast = None;
            state.record.add_process("Kill", "Holdfast");
            holdfast.kill()?;
        }
        Ok(())
    }

    /// Number of Envoys.
    pub(super) fn envoys(&self) -> usize {
        self.envoys.len()
    }

    /// Starts an Envoy, if it is not up.
    pub(super) async fn start_envoy(&mut self, index: usize) -> Result<()> {
        let (envoy, running) = &mut self.envoys[index];
        if running.is_none() {
            *running = Some(envoy.clone().start(&self.world, &self.options).await?);
            let mut state = self.shared.lock();
            state.envoy_starts(&envoy.node);
            state.record.add_process("StartEnvoy", &envoy.node);
        }
        Ok(())
    }

    /// Kills an Envoy, if it is up.
    pub(super) fn kill_envoy(&mut self, index: usize) -> Result<()> {
        let (envoy, running) = &mut self.envoys[index];
        if let Some(running) = running.take() {
            let mut state = self.shared.lock();
            state.envoys.insert(envoy.node.clone(), None);
            state.record.add_process("KillEnvoy", &envoy.node);
            running.kill()?;
        }
        Ok(())
    }

    /// Stops an Envoy, if it is up: its sockets stay open, and nothing answers.
    pub(super) fn freeze_envoy(&mut self, index: usize) {
        let (envoy, running) = &self.envoys[index];
        if let Some(running) = running {
            running.freeze();
            self.frozen = Some(index);
            let mut state = self.shared.lock();
            state.envoys.insert(envoy.node.clone(), None);
            state.record.add_process("FreezeEnvoy", &envoy.node);
        }
    }

    /// Continues the stopped Envoy.
    pub(super) fn thaw_envoy(&mut self) {
        let Some((envoy, running)) = self.frozen.take().map(|index| &self.envoys[index]) else { return };
        if let Some(running) = running {
            running.thaw();
            let mut state = self.shared.lock();
            state.envoy_starts(&envoy.node);
            state.record.add_process("ThawEnvoy", &envoy.node);
        }
    }

    /// The configuration of each Envoy about a route, for the report of a failure.
    pub(super) async fn served(&self, name: &str) -> String {
        let mut text = String::new();
        for (envoy, running) in &self.envoys {
            let Some(running) = running else { continue };
            let Ok(dump) = running.dump("dynamic_route_configs").await else { continue };
            let hosts = dump.pointer("/configs/0/route_config/virtual_hosts").and_then(|hosts| hosts.as_array());
            let own = hosts.into_iter().flatten().filter(|host| host["domains"].to_string().contains(name));
            own.for_each(|host| text += &format!("Envoy {}: {host}\n", envoy.node));
        }
        text
    }
}
