//! The Envoy of a Gateway as a kubelet starts it: with the files of the generated ConfigMap, and the token of its
//! ServiceAccount.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{HoldfastOptions, World, envoy, until};
use serde_json::Value;

/// The audience of Envoy tokens.
const AUDIENCE: &str = "holdfast.dev/xds";
/// The issuer of tokens in clusters of stories.
const ISSUER: &str = "https://kubernetes.default.svc";
/// The paths of files inside the Pod.
const CONFIG_FOLDER: &str = "/etc/envoy";
const TOKEN_FOLDER: &str = "/var/run/secrets/holdfast.dev";
const ADMIN_SOCKET: &str = "/run/holdfast/admin.sock";
/// The port of the readiness probe.
const READY: &str = "19001";

/// Returns options that serve xDS over TLS, authenticate Envoys by token, and generate the files of Envoys accordingly.
pub(super) async fn secured(world: &World, options: HoldfastOptions) -> Result<HoldfastOptions> {
    secured_at(world, options, "localhost").await
}

/// Like [`secured`], with this name or address of the xDS server.
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

/// The Pod of a Gateway; it can be started repeatedly, also while the API server is away.
pub(super) struct GatewayPod {
    name: String,
    folder: PathBuf,
}

impl GatewayPod {
    /// Fetches the files for the Pod of this Gateway, as a kubelet does.
    pub(super) async fn of(world: &World, cluster: &Cluster, gateway: &str) -> Result<Self> {
        let (name, folder) = (format!("{gateway}-holdfast"), world.folder().join(format!("pod-{gateway}")));
        fs::create_dir_all(&folder)?;
        let args = ["get", "configmap", &name, "-o", "json"];
        let map = until("the Envoy is made", || cluster.kubectl_output(&args)).await?;
        let map: Value = serde_json::from_str(&map)?;
        let here = folder.display().to_string();
        let ready = world.port()?.to_string();
        for (file, text) in map["data"].as_object().context("no files")? {
            let text = text.as_str().context("no text")?.replace(CONFIG_FOLDER, &here).replace(TOKEN_FOLDER, &here);
            let text = text.replace(ADMIN_SOCKET, &folder.join("admin.sock").display().to_string());
            // Host names resolve to IPv4 here, and two Pods share one host.
            let text = text.replace("\"STRICT_DNS\"", "\"STRICT_DNS\",\"dns_lookup_family\":\"V4_ONLY\"");
            fs::write(folder.join(file), text.replace(READY, &ready))?;
        }
        let token = cluster.kubectl_output(&["create", "token", &name, "--audience", AUDIENCE]).await?;
        fs::write(folder.join("token"), token.trim())?;
        Ok(Self { name, folder })
    }

    /// Starts the Envoy.
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
