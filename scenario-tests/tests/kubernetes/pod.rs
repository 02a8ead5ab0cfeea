//! The Envoy of a Gateway as a kubelet would start it: with the files of the ConfigMap that was made for it, and the token
//! of its ServiceAccount.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{HoldfastOptions, World, envoy, until};
use serde_json::Value;

/// Whom tokens of Envoys are for.
const AUDIENCE: &str = "holdfast.dev/xds";
/// Who makes them, in clusters of stories.
const ISSUER: &str = "https://kubernetes.default.svc";
/// Where files of a Pod are, in its own eyes.
const CONFIG_FOLDER: &str = "/etc/envoy";
const TOKEN_FOLDER: &str = "/var/run/secrets/holdfast.dev";
const ADMIN_SOCKET: &str = "/run/holdfast/admin.sock";
/// The port at which it says that it is ready.
const READY: &str = "19001";

/// Serves xDS over TLS, to whom a token says which Gateway it is of; with the files that Envoys are made with.
pub(super) async fn secured(world: &World, options: HoldfastOptions) -> Result<HoldfastOptions> {
    secured_at(world, options, "localhost").await
}

/// The same where Envoys know the xDS server by this name or address.
pub(super) async fn secured_at(world: &World, options: HoldfastOptions, host: &str) -> Result<HoldfastOptions> {
    let folder = world.folder().join("certificates");
    let out = folder.display().to_string();
    let args = ["certgen", "--out", &out, "--server-name", host, "--gateway", "default/none"];
    world.command(&args).await?.expect_code(0)?;
    let file = |name: &str| folder.join("server").join(name).display().to_string();
    let port = options.xds.rsplit(':').next().context("no port")?.to_owned();
    Ok(options.without_envoy().args(&[
        "--xds-tls-cert",
        &file("tls.crt"),
        "--xds-tls-key",
        &file("tls.key"),
        "--xds-token-audience",
        AUDIENCE,
        "--xds-token-issuer",
        ISSUER,
        "--provision-xds-authorities",
        &file("ca.crt"),
        "--provision-xds-address",
        &format!("{host}:{port}"),
    ]))
}

/// The Pod of a Gateway; it can be started again and again, also while the API server is away.
pub(super) struct Pod {
    name: String,
    folder: PathBuf,
}

impl Pod {
    /// What a kubelet fetches for the Pod of the Gateway of this name.
    pub(super) async fn of(world: &World, cluster: &Cluster, gateway: &str) -> Result<Self> {
        let (name, folder) = (format!("{gateway}-holdfast"), world.folder().join(format!("pod-{gateway}")));
        fs::create_dir_all(&folder)?;
        let args = ["get", "configmap", &name, "-o", "json"];
        let map = until("the Envoy is made", || cluster.ask(&args)).await?;
        let map: Value = serde_json::from_str(&map)?;
        let here = folder.display().to_string();
        let ready = world.port()?.to_string();
        for (file, text) in map["data"].as_object().context("no files")? {
            let text = text.as_str().context("no text")?.replace(CONFIG_FOLDER, &here).replace(TOKEN_FOLDER, &here);
            let text = text.replace(ADMIN_SOCKET, &folder.join("admin.sock").display().to_string());
            // Names of hosts here are of the old family, and two Pods share one host.
            let text = text.replace("\"STRICT_DNS\"", "\"STRICT_DNS\",\"dns_lookup_family\":\"V4_ONLY\"");
            fs::write(folder.join(file), text.replace(READY, &ready))?;
        }
        let token = cluster.ask(&["create", "token", &name, "--audience", AUDIENCE]).await?;
        fs::write(folder.join("token"), token.trim())?;
        Ok(Self { name, folder })
    }

    /// Starts it.
    pub(super) fn start(&self, world: &World) -> Result<Process> {
        let program = envoy::find().map_err(anyhow::Error::msg)?;
        let config = self.folder.join("bootstrap.json");
        ensure!(config.is_file(), "there is no bootstrap");
        let config = config.display().to_string();
        let args = ["--config-path", &config, "--service-node", &self.name, "--disable-hot-restart"];
        let args = [&args[..], &["--concurrency", "1", "--log-level", "warning"]].concat();
        Process::start(&program, args, &[], &world.log(&self.name))
    }
}
