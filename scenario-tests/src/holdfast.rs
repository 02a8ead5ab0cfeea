//! A running `holdfast run` on the manifests of a world, and its endpoints.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{self, Finished, Process};
use crate::request::get;
use crate::wait::until;
use crate::world::World;
use crate::{binary, envoy};

/// Options of `holdfast run`. Starts with equal options use the same ports and data.
#[derive(Clone, Debug)]
pub struct HoldfastOptions {
    /// Folders of manifests.
    pub manifests: Vec<PathBuf>,
    /// `managed` or `none`.
    pub envoy: &'static str,
    /// `--xds-listen`.
    pub xds: String,
    /// Port of diagnostics.
    pub diagnostics: u16,
    /// Port of metrics and health.
    pub metrics: u16,
    /// `--data-dir`.
    pub data: PathBuf,
    /// Further arguments.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// Limit of open files, if set.
    pub descriptors: Option<u32>,
}

impl HoldfastOptions {
    /// Returns options with a managed Envoy for each Gateway, on free ports of the world.
    pub fn new(world: &World) -> Result<Self> {
        Ok(Self {
            manifests: vec![world.manifests()],
            envoy: "managed",
            xds: format!("127.0.0.1:{}", world.port()?),
            diagnostics: world.port()?,
            metrics: world.port()?,
            data: world.data(),
            args: Vec::new(),
            env: Vec::new(),
            descriptors: None,
        })
    }

    /// Runs without any Envoy.
    pub fn without_envoy(mut self) -> Self {
        self.envoy = "none";
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the limit of open files.
    pub fn descriptors(mut self, count: u32) -> Self {
        self.descriptors = Some(count);
        self
    }

    /// The complete arguments of `holdfast`.
    pub fn command_line(&self) -> Vec<String> {
        let mut args = vec!["run".to_owned()];
        for folder in &self.manifests {
            args.extend(["--manifests".to_owned(), folder.display().to_string()]);
        }
        let flags = [
            ("--envoy", self.envoy.to_owned()),
            ("--data-dir", self.data.display().to_string()),
            ("--xds-listen", self.xds.clone()),
            ("--diagnostics-listen", format!("127.0.0.1:{}", self.diagnostics)),
            ("--metrics-listen", format!("127.0.0.1:{}", self.metrics)),
        ];
        args.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        args.extend(self.args.iter().cloned());
        args
    }
}

/// Log directives of Holdfast with the libraries of its store and files at `trace`, which write what they handle.
pub const STORE_TRACED: &str = "trace,h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info,\
                                kube_client=off,kube_runtime=off";

/// The diagnostics pages, below `/debug/`.
pub const PAGES: [&str; 11] = [
    "config/fallback",
    "config/successful",
    "config/failed",
    "config/raw-error",
    "graph",
    "plan",
    "process",
    "envoys",
    "faults",
    "statuses",
    "store",
];

/// A running `holdfast run`. Dropping it ends the process.
#[derive(Debug)]
pub struct Holdfast {
    /// The options it was started with.
    pub options: HoldfastOptions,
    process: Process,
    world: World,
}

impl Holdfast {
    /// Starts the process without waiting.
    pub fn start(world: &World, options: HoldfastOptions) -> Result<Self> {
        let mut env = options.env.clone();
        if options.envoy == "managed"
            && !env.iter().any(|(name, _)| name == "ENVOY_BIN")
            && let Ok(envoy) = envoy::find()
        {
            env.push(("ENVOY_BIN".to_owned(), envoy.display().to_string()));
        }
        let (mut program, mut args) = (binary::holdfast()?, options.command_line());
        if let Some(count) = options.descriptors {
            let limited = format!("ulimit -n {count} && exec \"$0\" \"$@\"");
            args.splice(0..0, ["-c".to_owned(), limited, program.display().to_string()]);
            program = "/bin/sh".into();
        }
        let process = Process::start(&program, args, &env, &world.log("run"))?;
        Ok(Self { options, process, world: world.clone() })
    }

    /// Waits until `/readyz` answers 200.
    pub async fn comes_to_be_ready(&mut self) -> Result<()> {
        let metrics = self.options.metrics;
        let ready = until("holdfast is ready", || async move {
            let reply = get(metrics, "/readyz?verbose").host("localhost").send().await?;
            ensure!(reply.status.is_success(), "{}: {}", reply.status, reply.body);
            Ok(())
        });
        tokio::select! {
            outcome = ready => outcome,
            end = self.process.comes_to_end() => bail!("holdfast ended before it was ready ({end})"),
        }
    }

    /// The output so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Waits until the output contains all of these texts.
    pub async fn comes_to_print(&self, words: &[&str]) -> Result<()> {
        until(&format!("holdfast says {words:?}"), || async {
            let output = self.output();
            ensure!(words.iter().all(|word| output.contains(word)), "output:\n{}", process::tail(&output));
            Ok(())
        })
        .await
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Process ids of the Envoys that serve its Gateways: other processes with the folder of this world in their
    /// command line, except the probe.
    pub fn envoys(&self) -> Vec<u32> {
        let mut envoys = process::naming(self.world.folder());
        let probes = self.probes();
        envoys.retain(|id| *id != self.id() && !probes.contains(id));
        envoys
    }

    /// Process ids of its probe Envoys.
    pub fn probes(&self) -> Vec<u32> {
        process::naming(&self.options.data.join("probe"))
    }

    /// JSON of a diagnostics page.
    pub async fn diagnostics(&self, path: &str) -> Result<Value> {
        let reply = get(self.options.diagnostics, path).host("localhost").answers(200).await?;
        serde_json::from_str(&reply.body).with_context(|| format!("{path} is no JSON: {}", reply.body))
    }

    /// Waits until this generation of an object (as `gateway.networking.k8s.io/HTTPRoute:default/cart`) is last valid, and
    /// on the disk with everything that was proven or refused before: also a kill does not lose it.
    pub async fn comes_to_store(&self, object: &str, generation: i64) -> Result<()> {
        until(&format!("generation {generation} of {object} is on the disk"), || async {
            let page = self.diagnostics("/debug/store").await?;
            let scopes = page["scopes"].as_array().into_iter().flatten();
            let mut versions = scopes.flat_map(|scope| scope["objects"].as_array().into_iter().flatten());
            let is_listed = versions.any(|version| version["object"] == object && version["generation"] == generation);
            ensure!(is_listed && page["upToDate"] == true, "{page}");
            Ok(())
        })
        .await
    }

    /// Returns the generation of an object in manifests.
    pub async fn generation(&self, object: &str) -> Result<i64> {
        let page = self.diagnostics("/debug/config/successful").await?;
        let mut objects = page["objects"].as_array().into_iter().flatten();
        let found = objects.find(|found| found["object"] == object).and_then(|found| found["generation"].as_i64());
        found.with_context(|| format!("{object} is not among the objects"))
    }

    /// The metrics page.
    pub async fn metrics(&self) -> Result<String> {
        Ok(get(self.options.metrics, "/metrics").host("localhost").answers(200).await?.body)
    }

    /// Sum of all series of a metric with all of `labels` (as in `type="RDS"`); 0 if there is none.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let page = self.metrics().await?;
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let wanted = |line: &&str| labels.iter().all(|label| line.contains(label));
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        Ok(page.lines().filter(of_name).filter(wanted).map(value).sum::<f64>() + 0.0)
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn terminate(self) -> Result<Finished> {
        self.process.terminate().await
    }

    /// Kills the process (SIGKILL). Its Envoys continue to run.
    pub fn kill(self) -> Result<HoldfastOptions> {
        let Self { options, process, .. } = self;
        process.kill()?;
        Ok(options)
    }

    /// Waits until the process ends by itself.
    pub async fn finish(self) -> Result<Finished> {
        self.process.finish().await
    }
}
