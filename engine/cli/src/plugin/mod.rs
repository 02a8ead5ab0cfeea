//! `kubectl holdfast`: the same program as a plugin of kubectl. A command that queries a running Holdfast reaches it
//! through a port that `kubectl port-forward` opens to its Pod.
//!
//! The plugin has no access of its own to the cluster: kubectl reads the Pods and opens the port, with the kubeconfig,
//! context and credentials that it has.

mod forward;
mod pods;
mod signals;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, Error, FromArgMatches, Parser};

use self::forward::PortForward;
use crate::cli::{Command, METRICS};
use crate::commands;
use crate::commands::status::Diagnostics;
use crate::failure::Failure;
use crate::printable::printable;

/// The name of the program as a plugin, and the beginning of its names for packages of plugins.
const PLUGIN: &str = "kubectl-holdfast";

/// The command line of the plugin.
#[derive(Debug, Parser)]
#[command(name = PLUGIN, bin_name = "kubectl holdfast", version, max_term_width = 100)]
#[command(about = "Query the Holdfast of a cluster, and run the other commands of `holdfast`")]
#[command(after_help = "A command that queries a running Holdfast (status, explain, diff, envoys, config, collect, \
                        log-level) opens a port to its Pod with kubectl port-forward, unless --diagnostics is set. \
                        `kubectl holdfast COMMAND --help` describes the command.")]
pub(crate) struct PluginCli {
    #[command(flatten)]
    cluster: PluginTarget,
    #[command(subcommand)]
    command: Command,
}

/// The Pod, and how kubectl reaches it.
#[derive(Clone, Debug, Args)]
struct PluginTarget {
    /// Kubeconfig of kubectl
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of Holdfast's Pods [default: all namespaces]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Labels of Holdfast's Pods
    #[arg(long, short = 'l', value_name = "LABELS")]
    #[arg(default_value = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=controller")]
    selector: String,
    /// The Pod [default: the leader]
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Port of diagnostics in the Pod (`diagnostics.port` of the chart)
    #[arg(long, value_name = "PORT", default_value_t = 10256)]
    diagnostics_port: u16,
    /// Port of metrics in the Pod (`metrics.port` of the chart)
    #[arg(long, value_name = "PORT", default_value_t = 10255)]
    metrics_port: u16,
}

impl PluginTarget {
    /// Arguments of kubectl that select the cluster.
    fn of_kubectl(&self) -> Vec<String> {
        let flag = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
        [flag("kubeconfig", &self.kubeconfig), flag("context", &self.context)].into_iter().flatten().collect()
    }

    /// The port in the Pod that the address of a flag leads to.
    fn port(&self, flag: &str) -> u16 {
        if flag == METRICS { self.metrics_port } else { self.diagnostics_port }
    }
}

/// Maximum number of bytes of a message of kubectl that is shown.
const KUBECTL_MESSAGE_BYTES_MAX: usize = 4096;

/// The failure of a command of kubectl, with its message.
fn failure(command: &str, message: &str) -> Failure {
    let message = &message[..message.floor_char_boundary(KUBECTL_MESSAGE_BYTES_MAX)];
    let message = printable(message.trim_end(), |character| character == '\n');
    Failure::Undetermined(format!("kubectl {command}: {message}"))
}

/// Returns whether the program was called as a plugin of kubectl.
pub(crate) fn is_called(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name.to_string_lossy() == PLUGIN)
}

/// The command of the plugin, ready to run.
pub(crate) struct PluginCommand {
    cluster: PluginTarget,
    command: Command,
    /// The flags of addresses that are neither on the command line nor in the environment.
    unset: BTreeSet<String>,
}

impl PluginCommand {
    /// Parses the command line of the process.
    ///
    /// # Errors
    /// Returns an error if it is not valid, or requests help.
    pub(crate) fn of_process() -> Result<Self, Error> {
        Self::parse(std::env::args_os())
    }

    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let matches = PluginCli::command().try_get_matches_from(arguments)?;
        let PluginCli { cluster, command } = PluginCli::from_arg_matches(&matches)?;
        let is_default = |matches: &ArgMatches, id: &str| matches.value_source(id) == Some(ValueSource::DefaultValue);
        let unset = matches.subcommand().into_iter().flat_map(|(_, matches)| {
            matches.ids().map(|id| id.as_str().to_owned()).filter(|id| is_default(matches, id)).collect::<Vec<_>>()
        });
        Ok(Self { cluster, command, unset: unset.collect() })
    }

    /// Runs the command, with a port to Holdfast if it needs one.
    ///
    /// # Errors
    /// Returns the failure of the command, or of kubectl.
    pub(crate) fn run(mut self) -> Result<ExitCode, Failure> {
        let mut addresses = self.command.addresses_mut();
        addresses.retain(|(flag, _)| self.unset.contains(*flag));
        if addresses.is_empty() {
            return commands::run(self.command);
        }
        let ports: Vec<u16> = addresses.iter().map(|(flag, _)| self.cluster.port(flag)).collect();
        let forward = PortForward::open(&self.cluster, &pods::find(&self.cluster)?, &ports)?;
        for ((_, address), port) in addresses.into_iter().zip(forward.ports()) {
            *address = Diagnostics::of_this_host(*port);
        }
        commands::run(self.command)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> PluginCommand {
        PluginCommand::parse(line.split_whitespace().map(OsString::from)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_name_of_the_program_decides() {
        for (program, expected) in [
            ("kubectl-holdfast", true),
            ("/opt/krew/bin/kubectl-holdfast", true),
            ("holdfast", false),
            ("/kubectl-holdfast/holdfast", false),
        ] {
            assert_eq!(is_called(Some(&program.into())), expected, "{program}");
        }
        assert!(!is_called(None));
    }

    #[test]
    fn an_address_on_the_command_line_needs_no_port() {
        let flags = |line: &str| {
            let PluginCommand { mut command, unset, .. } = parsed(line);
            let flags = command.addresses_mut().into_iter().map(|(flag, _)| flag);
            flags.filter(|flag| unset.contains(*flag)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(flags("kubectl-holdfast status -n shop"), "diagnostics");
        assert_eq!(flags("kubectl-holdfast status --diagnostics 127.0.0.1:1"), "");
        assert_eq!(flags("kubectl-holdfast collect"), "diagnostics metrics");
        assert_eq!(flags("kubectl-holdfast collect --metrics 127.0.0.1:1"), "diagnostics");
        assert_eq!(flags("kubectl-holdfast explain GET http://a/"), "diagnostics");
        assert_eq!(flags("kubectl-holdfast explain GET http://a/ --manifests ."), "");
        assert_eq!(flags("kubectl-holdfast check ."), "");
        assert_eq!(flags("kubectl-holdfast version"), "");
    }

    #[test]
    fn flags_before_the_command_select_the_cluster() {
        let PluginCommand { cluster, .. } = parsed("kubectl-holdfast -n infra --context blue status -n shop");
        assert_eq!(cluster.of_kubectl(), ["--context=blue"]);
        assert_eq!((cluster.namespace.as_deref(), cluster.port("metrics")), (Some("infra"), 10255));
    }
}
