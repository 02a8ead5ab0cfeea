//! Envoys that a story starts itself, for `default/public` or another Gateway, with the output of `holdfast bootstrap`.
//! Each Envoy has a configurable RE2 program size limit, so that it may refuse configuration that translation accepts,
//! and an admin interface, which counts refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Error, Result, ensure};
use serde_json::Value;

use crate::binary::envoy_with_mistakes;
use crate::holdfast::HoldfastOptions;
use crate::process::{self, Process};
use crate::request::get;
use crate::wait::until;
use crate::world::World;
use crate::{envoy, holdfast::Holdfast};

/// Envoy's default limit of RE2 program size.
pub const RE2_ENVOY: u32 = 100;
/// The limit in the generated bootstrap.
pub const RE2_HOLDFAST: u32 = 10_000;

/// Options of an Envoy.
#[derive(Clone, Debug)]
pub struct FleetEnvoy {
    /// `node.id`.
    pub node: String,
    /// RE2 program size above which Envoy refuses a regular expression.
    pub re2: u32,
    /// The limit that the node reports; a different number makes it a different build.
    pub reported_re2: u32,
    /// Uses state of the world instead of delta.
    pub sotw: bool,
    /// The Gateway, `namespace/name`.
    pub gateway: &'static str,
    /// The folder of the client certificate; without one, the xDS connection does not use TLS.
    pub credentials: Option<PathBuf>,
    /// The file of the token, which the Envoy sends instead of a client certificate.
    pub token: Option<PathBuf>,
    /// Whether marked resources get their [mistakes](crate::mistakes) on the way to the Envoy.
    pub has_mistakes: bool,
    /// Replacements in the text of the bootstrap.
    pub edits: Vec<(String, String)>,
}

impl FleetEnvoy {
    /// Returns an Envoy with Envoy's default limit, which it also reports.
    pub fn small(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            re2: RE2_ENVOY,
            reported_re2: RE2_ENVOY,
            sotw: false,
            gateway: "default/public",
            credentials: None,
            token: None,
            has_mistakes: false,
            edits: Vec::new(),
        }
    }

    /// Returns an Envoy with the limit of the generated bootstrap.
    pub fn large(node: &str) -> Self {
        Self { re2: RE2_HOLDFAST, reported_re2: RE2_HOLDFAST, ..Self::small(node) }
    }

    /// Returns an Envoy with Envoy's default limit that reports the limit of the generated bootstrap, so that it has
    /// the same build as the probe.
    pub fn secretly_small(node: &str) -> Self {
        Self { reported_re2: RE2_HOLDFAST, ..Self::small(node) }
    }

    /// Starts the Envoy without waiting until it is ready.
    pub async fn start(self, world: &World, options: &HoldfastOptions) -> Result<RunningEnvoy> {
        let admin = world.port()?;
        let admin_address = format!("127.0.0.1:{admin}");
        let mode = if self.sotw { "sotw" } else { "delta" };
        let args = ["bootstrap", "--gateway", self.gateway, "--node-id", &self.node, "--xds", &options.xds];
        let folder = self.credentials.as_ref().map(|folder| folder.display().to_string());
        let credentials = folder.as_ref().map(|folder| ["--xds-credentials", folder]);
        let shown = credentials.as_ref().map_or(&[][..], |credentials| &credentials[..]);
        let token = self.token.as_ref().map(|token| token.display().to_string());
        let token = token.as_ref().map(|token| ["--xds-token", token]);
        let token = token.as_ref().map_or(&[][..], |token| &token[..]);
        let args = [&args[..], &["--admin", &admin_address, "--xds-mode", mode], shown, token].concat();
        let printed = world.command(&args).await?;
        let text = printed.expect_code(0)?.stdout.clone();
        ensure!(text.contains("re2=10000") && text.contains("error_level: 10000"), "another bootstrap:\n{text}");
        let text = text
            .replace("re2=10000", &format!("re2={}", self.reported_re2))
            .replace("error_level: 10000", &format!("error_level: {}", self.re2));
        let mut text = text;
        for (from, to) in &self.edits {
            ensure!(text.contains(from), "{from:?} is not in the bootstrap:\n{text}");
            text = text.replace(from, to);
        }
        let file = world.folder().join(format!("{}.yaml", self.node));
        fs::write(&file, text)?;
        let binary = envoy::find().map_err(Error::msg)?;
        let file = file.display().to_string();
        let args = ["-c", &file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"];
        let shown = binary.display().to_string();
        let (program, first) = match self.has_mistakes {
            true => (envoy_with_mistakes()?, Some(&*shown)),
            false => (binary, None),
        };
        let process = Process::start(&program, first.into_iter().chain(args), &[], &world.log(&self.node))?;
        Ok(RunningEnvoy { node: self.node, admin, process })
    }
}

/// A running Envoy. Dropping it ends the process.
#[derive(Debug)]
pub struct RunningEnvoy {
    /// `node.id`.
    pub node: String,
    admin: u16,
    process: Process,
}

impl RunningEnvoy {
    /// Sum of all counters and gauges with this suffix.
    pub async fn stat(&self, ending: &str) -> Result<u64> {
        let text = get(self.admin, "/stats").answers(200).await?.body;
        let of_name = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            if name.ends_with(ending) { value.parse::<u64>().ok() } else { None }
        };
        Ok(text.lines().filter_map(of_name).sum())
    }

    /// Number of refusals, counted once for each refused resource.
    pub async fn refusals(&self) -> Result<u64> {
        self.stat("update_rejected").await
    }

    /// The config dump of one type of configuration, as in `dynamic_route_configs`.
    pub async fn dump(&self, resource: &str) -> Result<Value> {
        let body = get(self.admin, &format!("/config_dump?resource={resource}")).answers(200).await?.body;
        serde_json::from_str(&body).with_context(|| format!("no JSON: {body}"))
    }

    /// Fails if the Envoy refused anything since it started.
    pub async fn never_refused(&self) -> Result<()> {
        let refusals = self.refusals().await?;
        ensure!(refusals == 0, "{} refused {refusals} times", self.node);
        Ok(())
    }

    /// The clusters with their endpoints, as on the page `/clusters`.
    pub async fn clusters(&self) -> Result<String> {
        Ok(get(self.admin, "/clusters").answers(200).await?.body)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process (SIGSTOP).
    pub fn freeze(&self) {
        process::signal(self.id(), "STOP");
    }

    /// Continues the process (SIGCONT).
    pub fn thaw(&self) {
        process::signal(self.id(), "CONT");
    }

    /// Kills the process (SIGKILL).
    pub fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn terminate(self) -> Result<()> {
        self.process.terminate().await.map(drop)
    }
}

/// Waits until this number of Envoys is connected.
pub async fn connected(holdfast: &Holdfast, count: usize) -> Result<()> {
    until("the Envoys are connected", || async {
        let now = holdfast.metric("holdfast_xds_connected_envoys", &[]).await?;
        ensure!(now == count as f64, "{now} instead of {count}");
        Ok(())
    })
    .await
}

/// Returns a program that runs Envoy with Envoy's default limit of RE2 program size, whatever the bootstrap specifies.
/// An Envoy that Holdfast starts with it, the probe or a managed Envoy, refuses configuration that translation accepts.
pub fn small_binary(world: &World) -> Result<PathBuf> {
    let binary = envoy::find().map_err(Error::msg)?;
    small_program(world, "small-envoy", &binary.display().to_string())
}

/// Returns a program as [`small_binary`] that also refuses resources with [mistakes](crate::mistakes).
pub fn small_binary_with_mistakes(world: &World) -> Result<PathBuf> {
    small_program(world, "small-envoy-with-mistakes", &with_mistakes()?)
}

/// Returns a program that runs Envoy, which refuses resources with [mistakes](crate::mistakes).
pub fn binary_with_mistakes(world: &World) -> Result<PathBuf> {
    program(world, "envoy-with-mistakes", &format!("#!/bin/sh\nexec {} \"$@\"\n", with_mistakes()?))
}

fn with_mistakes() -> Result<String> {
    let binary = envoy::find().map_err(Error::msg)?;
    Ok(format!("{} {}", envoy_with_mistakes()?.display(), binary.display()))
}

fn small_program(world: &World, name: &str, command: &str) -> Result<PathBuf> {
    let script = format!(
        r#"#!/bin/sh
previous=
for argument; do
  shift
  if [ "$previous" = --config-path ]; then
    sed 's/\(error_level"*: *\)10000/\1{RE2_ENVOY}/' "$argument" > "$argument.small.yaml"
    argument="$argument.small.yaml"
  fi
  set -- "$@" "$argument"
  previous="$argument"
done
exec {command} "$@"
"#
    );
    program(world, name, &script)
}

fn program(world: &World, name: &str, script: &str) -> Result<PathBuf> {
    let file = world.folder().join(name);
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}
