//! Envoys of `default/public`, or of another Gateway, that a story starts itself, from a bootstrap that `holdfast bootstrap` prints: with a limit
//! of expressions of their own, so that they refuse what translation takes, and with an admin interface that tells how
//! often they did.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Error, Result, ensure};
use serde_json::Value;

use crate::ask::get;
use crate::holdfast::HoldfastOptions;
use crate::process::{self, Process};
use crate::wait::until;
use crate::world::World;
use crate::{envoy, holdfast::Holdfast};

/// Envoy's own limit of RE2 programs.
pub const RE2_ENVOY: u32 = 100;
/// The limit of the generated bootstrap.
pub const RE2_HOLDFAST: u32 = 10_000;

/// How an Envoy is told to be.
#[derive(Clone, Debug)]
pub struct FleetEnvoy {
    /// `node.id`.
    pub node: String,
    /// RE2 program size above which it refuses.
    pub re2: u32,
    /// What it says of that limit: another number makes it another build.
    pub says_re2: u32,
    /// State of the world instead of delta.
    pub sotw: bool,
    /// Whose it is, `namespace/name`.
    pub gateway: &'static str,
    /// The folder of its certificate; without one it speaks no TLS to the xDS server.
    pub credentials: Option<PathBuf>,
    /// The file of its token, which it shows instead of a certificate.
    pub token: Option<PathBuf>,
    /// Parts of its bootstrap that are written otherwise.
    pub edits: Vec<(String, String)>,
}

impl FleetEnvoy {
    /// One that has Envoy's own limit and says so.
    pub fn small(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            re2: RE2_ENVOY,
            says_re2: RE2_ENVOY,
            sotw: false,
            gateway: "default/public",
            credentials: None,
            token: None,
            edits: Vec::new(),
        }
    }

    /// One as the generated bootstrap makes it.
    pub fn large(node: &str) -> Self {
        Self { re2: RE2_HOLDFAST, says_re2: RE2_HOLDFAST, ..Self::small(node) }
    }

    /// One that has Envoy's own limit and does not say so: of the same build as a probe that is made so, too.
    pub fn secretly_small(node: &str) -> Self {
        Self { says_re2: RE2_HOLDFAST, ..Self::small(node) }
    }

    /// Starts it; it need not be ready yet.
    pub async fn start(self, world: &World, options: &HoldfastOptions) -> Result<Running> {
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
            .replace("re2=10000", &format!("re2={}", self.says_re2))
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
        let process = Process::start(&binary, args, &[], &world.log(&self.node))?;
        Ok(Running { node: self.node, admin, process })
    }
}

/// An Envoy at work. Dropping it asks it to end.
#[derive(Debug)]
pub struct Running {
    /// `node.id`.
    pub node: String,
    admin: u16,
    process: Process,
}

impl Running {
    /// Sum of all of its counters and gauges whose name ends so.
    pub async fn stat(&self, ending: &str) -> Result<u64> {
        let text = get(self.admin, "/stats").answers(200).await?.body;
        let of_name = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            if name.ends_with(ending) { value.parse::<u64>().ok() } else { None }
        };
        Ok(text.lines().filter_map(of_name).sum())
    }

    /// How often it refused something, counted once for each resource of the type that was refused.
    pub async fn refusals(&self) -> Result<u64> {
        self.stat("update_rejected").await
    }

    /// What it has: its own dump of a kind of configuration, as in `dynamic_route_configs`.
    pub async fn dump(&self, resource: &str) -> Result<Value> {
        let body = get(self.admin, &format!("/config_dump?resource={resource}")).answers(200).await?.body;
        serde_json::from_str(&body).with_context(|| format!("no JSON: {body}"))
    }

    /// Fails where it refused anything since it was started.
    pub async fn never_refused(&self) -> Result<()> {
        let refusals = self.refusals().await?;
        ensure!(refusals == 0, "{} refused {refusals} times", self.node);
        Ok(())
    }

    /// Its clusters with their endpoints, as it lists them.
    pub async fn clusters(&self) -> Result<String> {
        Ok(get(self.admin, "/clusters").answers(200).await?.body)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets it fall silent.
    pub fn freeze(&self) {
        process::signal(self.id(), "STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        process::signal(self.id(), "CONT");
    }

    /// Ends it without asking.
    pub fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// Asks it to end and waits until it has.
    pub async fn terminate(self) -> Result<()> {
        self.process.terminate().await.map(drop)
    }
}

/// Waits until so many Envoys are connected.
pub async fn connected(holdfast: &Holdfast, count: usize) -> Result<()> {
    until("the Envoys are connected", || async {
        let now = holdfast.metric("holdfast_xds_connected_envoys", &[]).await?;
        ensure!(now == count as f64, "{now} instead of {count}");
        Ok(())
    })
    .await
}

/// A program that is an Envoy with Envoy's own limit of expressions, whatever its bootstrap says: what Holdfast starts with
/// it, the probe or a managed Envoy, refuses what translation takes.
pub fn small_binary(world: &World) -> Result<PathBuf> {
    let binary = envoy::find().map_err(Error::msg)?;
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
exec {} "$@"
"#,
        binary.display()
    );
    let file = world.folder().join("small-envoy");
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}
