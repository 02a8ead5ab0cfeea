//! `holdfast run`: its flags. [`serve`] is the main loop and everything that it opens.

pub mod kubernetes;
pub mod provision;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use self::kubernetes::KubernetesArgs;
use self::provision::ProvisionArgs;
use crate::arguments::{self, Switchable};
use crate::cli::{EnvoyMode, LogFormat, ProbeMode};
use crate::failure::Failure;
use crate::settings::TranslationArgs;
use crate::store::key::StoreKeyArgs;
use crate::webhook::arguments::WebhookArgs;
use crate::xds::arguments::XdsArgs;
use crate::{headings, log, serve};

/// `holdfast run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Folders or files of manifests; of several definitions of one object the first is used [default: none, the
    /// objects are read from an API server]
    #[arg(help_heading = headings::STANDALONE)]
    #[arg(long, env = "CONTROLLER_MANIFESTS", value_name = "DIR", num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// The API server, used without manifests.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// Envoys that Holdfast deploys in the cluster.
    #[command(flatten)]
    pub provision: ProvisionArgs,
    /// Start one Envoy for each Gateway, or none (see `holdfast bootstrap`) [default: managed with --manifests, else
    /// none]
    #[arg(help_heading = headings::MANAGED)]
    #[arg(long, env = "CONTROLLER_ENVOY", value_enum)]
    pub envoy: Option<EnvoyMode>,
    /// Worker threads of each managed Envoy
    #[arg(help_heading = headings::MANAGED)]
    #[arg(long, env = "CONTROLLER_ENVOY_CONCURRENCY", value_name = "THREADS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub envoy_concurrency: u32,
    /// Try changed configuration on a dedicated Envoy before it is sent to others: auto (if an Envoy binary is found),
    /// on (an error if none is found), or off
    #[arg(help_heading = headings::PROBE)]
    #[arg(long, env = "CONTROLLER_PROBE", value_enum, default_value_t = ProbeMode::Auto)]
    pub probe: ProbeMode,
    /// Let a `holdfast probe` in another container run the probe. Both containers share this folder; no other process
    /// may have access to it
    #[arg(help_heading = headings::PROBE)]
    #[arg(long, env = "CONTROLLER_PROBE_FOLDER", value_name = "DIR")]
    pub probe_folder: Option<PathBuf>,
    /// Time without an answer to new configuration after which the probe counts as hung
    #[arg(help_heading = headings::PROBE)]
    #[arg(long, env = "CONTROLLER_PROBE_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = arguments::probe_timeout)]
    pub probe_timeout: Duration,
    /// Folder for data: identities of objects, sockets, managed Envoys [default: $XDG_DATA_HOME/holdfast, else
    /// ~/.local/share/holdfast]
    #[arg(help_heading = headings::STORE)]
    #[arg(long, env = "CONTROLLER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Folder that several replicas on one host share: all of them use what the leader has proven good
    #[arg(help_heading = headings::REPLICAS)]
    #[arg(long, env = "CONTROLLER_SHARED_STORE", value_name = "DIR", hide = true)]
    pub shared_store: Option<PathBuf>,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub store_key: StoreKeyArgs,
    /// Time without an answer to a configuration on trial after which an Envoy counts as silent
    #[arg(help_heading = headings::XDS)]
    #[arg(long, env = "CONTROLLER_ACK_TIMEOUT", value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = arguments::probe_timeout)]
    pub ack_timeout: Duration,
    /// The address to which Envoys connect, and how they authenticate.
    #[command(flatten)]
    pub xds: XdsArgs,
    /// Listen address of diagnostics (/debug/...): ADDRESS:PORT, or none
    #[arg(help_heading = headings::DIAGNOSTICS)]
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics_listen: Switchable<SocketAddr>,
    /// Listen address of /metrics, /healthz and /readyz: ADDRESS:PORT, or none
    #[arg(help_heading = headings::DIAGNOSTICS)]
    #[arg(long, env = "CONTROLLER_METRICS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:10255")]
    pub metrics_listen: Switchable<SocketAddr>,
    /// The admission webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// Listen address of Gateways without an address in their spec; all these Gateways share that host [default:
    /// 127.0.0.1; with an API server every address, since the Envoys of each Gateway have their own host]
    #[arg(help_heading = headings::ADDRESSES)]
    #[arg(long, env = "CONTROLLER_LISTEN_ADDRESS", value_name = "IP", conflicts_with = "provision")]
    pub listen_address: Option<IpAddr>,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
    /// Form of the log, on standard error
    #[arg(help_heading = headings::LOG)]
    #[arg(long, env = "CONTROLLER_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// off, error, warn, info, debug, trace, or directives such as info,holdfast_xds=debug
    #[arg(help_heading = headings::LOG)]
    #[arg(long, env = "CONTROLLER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    #[arg(value_parser = arguments::log_level)]
    pub log_level: String,
}

impl RunArgs {
    /// The mode of managed Envoys.
    pub fn envoys(&self) -> EnvoyMode {
        self.envoy.unwrap_or(if self.manifests.is_empty() { EnvoyMode::None } else { EnvoyMode::Managed })
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the product cannot start, or fails while running.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    let level = log::start(args.log_format, &args.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let ended = runtime.block_on(serve::serve(args, level));
    // After a second signal the main loop may still be at work; the process does not wait for its thread.
    runtime.shutdown_background();
    ended
}
