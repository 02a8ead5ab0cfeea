//! One row of the table: its parameters, and its run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected, small_binary};
use holdfast_scenario_tests::manifests::{self, route};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, World};

use super::super::probed::probe_is_ready;
use super::super::{BACKFILL, REPLACE};
use super::durations::Durations;
use super::edits::CrowdEdit;
use super::innocent::{INNOCENT, Innocent};
use super::refusals::Refusals;

/// The backends of every namespace.
pub(super) const BACKENDS: [&str; 2] = ["echo", "other"];

/// The parameters of a run.
#[derive(Debug)]
pub(super) struct Row {
    /// The name, by which the row can be run alone.
    pub(super) name: &'static str,
    /// Number of objects of the crowd.
    pub(super) objects: usize,
    /// Edits of the crowd per second.
    pub(super) per_second: u32,
    /// Of three versions, the number that Envoy refuses.
    pub(super) refused_of_three: usize,
    /// What the edits of the crowd change.
    pub(super) edit: CrowdEdit,
    /// Whether each object of the crowd has an accepted version before the first edit, which can be served instead of
    /// a refused one. Otherwise the first edit creates it.
    pub(super) has_accepted_version: bool,
    /// Number of namespaces of the crowd.
    pub(super) namespaces: usize,
    /// Number of serving Envoys.
    pub(super) envoys: usize,
    /// Whether new content is tried on a probe.
    pub(super) has_probe: bool,
    /// Whether last valid versions are served.
    pub(super) uses_last_valid: bool,
    /// The duration; an edit in progress is measured to its end.
    pub(super) lasts: Duration,
    /// Time after which an edit counts as not served.
    pub(super) edit_max: Duration,
}

/// Returns an HTTPRoute of the Gateway.
pub(super) fn route_of(namespace: &str, name: &str, spec: &str) -> String {
    route("HTTPRoute", namespace, name, "- name: public\n  namespace: default\n", spec)
}

/// Returns a TrafficPolicy for the route of the same name.
pub(super) fn policy(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]\n{}",
        manifests::indent(spec, 2)
    )
}

impl Row {
    /// Runs the crowd, and measures the edits of the innocent namespace.
    pub(super) async fn run(&'static self, world: &World) -> Result<Durations> {
        let mut echoes = Vec::new();
        for namespace in self.crowd_namespaces().chain([INNOCENT.to_owned()]) {
            for backend in BACKENDS {
                echoes.push(world.backend_in(&namespace, backend, None).await?);
            }
        }
        let port = world.gateway()?;
        let accepted = if self.has_accepted_version { self.objects } else { 0 };
        for number in 0..accepted {
            self.write_crowd_object(world, number, 0)?;
        }
        let mut innocent = Innocent::new(world, port, self.edit_max)?;
        let (holdfast, envoys) = self.start(world).await?;
        innocent.is_served().await?;
        if self.has_accepted_version {
            let last = self.objects - 1;
            let request = get(port, &format!("/crowd{last}")).host(&format!("c{last}-0.example"));
            request.comes_to_answer(200).await.context("the crowd is not served")?;
        }

        let refusals = Refusals::sample(holdfast.options.metrics);
        let began = Instant::now();
        let crowd = tokio::spawn(self.flap(world.clone()));
        let mut durations = Durations::of(self);
        while began.elapsed() < self.lasts {
            innocent.next_edit(&holdfast, &mut durations).await?;
        }
        crowd.abort();
        durations.lasted = began.elapsed();
        durations.refusals = refusals.stop().await;
        drop((envoys, echoes));
        Ok(durations)
    }

    /// Starts Holdfast and the Envoys. With a probe, all have the build that the probe has.
    async fn start(&self, world: &World) -> Result<(Holdfast, Vec<RunningEnvoy>)> {
        let flags = if self.uses_last_valid { &BACKFILL[..] } else { &REPLACE[..] };
        let mut options = HoldfastOptions::new(world)?.without_envoy().args(flags);
        options = match self.has_probe {
            true => options.args(&["--probe", "on"]).env("ENVOY_BIN", &small_binary(world)?.display().to_string()),
            false => options.args(&["--probe", "off"]),
        };
        let holdfast = world.run_with(options.clone()).await?;
        let mut envoys = Vec::new();
        for number in 0..self.envoys {
            let node = format!("envoy{number}");
            let envoy = if self.has_probe { FleetEnvoy::secretly_small(&node) } else { FleetEnvoy::small(&node) };
            envoys.push(envoy.start(world, &options).await?);
        }
        connected(&holdfast, self.envoys).await?;
        if self.has_probe {
            probe_is_ready(&holdfast).await?;
        }
        Ok((holdfast, envoys))
    }
}
