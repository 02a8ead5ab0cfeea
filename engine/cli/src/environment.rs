//! Environment variables of the program: an unknown one is an error with the nearest known name, and an error about a
//! flag names the variable that has set it.
//!
//! A misspelt variable would otherwise have no effect, which is noticed in production: a gate that is off isolates
//! nothing. Variables of other programs do not begin with the prefixes. Kubernetes adds variables for the Services of a
//! namespace; they are ignored, as their names can begin with the prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error};

use crate::cli::Cli;
use crate::nearest::nearest;

/// The prefix of the variables of flags.
const PREFIX: &str = "CONTROLLER_";
/// The prefix of the product, which no variable has.
const PRODUCT: &str = "HOLDFAST_";

/// A flag that a variable can set.
struct Flag {
    variable: String,
    short: Option<char>,
    hidden: bool,
}

/// The flags of all commands, by name. Flags of the same name have the same variable.
struct KnownFlags(BTreeMap<String, Flag>);

impl KnownFlags {
    fn of(command: &Command) -> Self {
        let mut flags = Self(BTreeMap::new());
        flags.add(command);
        flags
    }

    fn add(&mut self, command: &Command) {
        let flag = |arg: &Arg| {
            let (long, variable) = (arg.get_long()?, arg.get_env()?.to_str()?);
            let flag = Flag { variable: variable.into(), short: arg.get_short(), hidden: arg.is_hide_set() };
            Some((format!("--{long}"), flag))
        };
        self.0.extend(command.get_arguments().filter_map(flag));
        command.get_subcommands().for_each(|command| self.add(command));
    }

    fn knows(&self, variable: &str) -> bool {
        self.0.values().any(|flag| flag.variable == variable)
    }

    /// The name of a known variable that is most similar to an unknown one.
    fn nearest(&self, unknown: &str) -> Option<String> {
        let end = unknown.strip_prefix(PREFIX).or_else(|| unknown.strip_prefix(PRODUCT))?;
        let shown = self.0.values().filter(|flag| !flag.hidden);
        let ends = shown.filter_map(|flag| flag.variable.strip_prefix(PREFIX));
        nearest(end, ends).map(|end| format!("{PREFIX}{end}"))
    }
}

/// The environment and the arguments of a process.
pub struct Environment {
    flags: KnownFlags,
    variables: BTreeSet<String>,
    arguments: Vec<String>,
}

impl Environment {
    /// The environment and the arguments of this process.
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, _)| text(name));
        Self::new(variables, std::env::args_os().skip(1).map(text))
    }

    fn new(variables: impl IntoIterator<Item = String>, arguments: impl IntoIterator<Item = String>) -> Self {
        let flags = KnownFlags::of(&Cli::command());
        Self { flags, variables: variables.into_iter().collect(), arguments: arguments.into_iter().collect() }
    }

    /// The error about all unknown variables; `None` if there are none.
    pub fn unknown(&self) -> Option<Error> {
        let ours = |name: &&String| name.starts_with(PREFIX) || name.starts_with(PRODUCT);
        let unknown = |name: &&String| !self.flags.knows(name) && !is_of_a_service(name);
        let unknown: Vec<_> = self.variables.iter().filter(ours).filter(unknown).collect();
        if unknown.is_empty() {
            return None;
        }
        let line = |name: &&String| match self.flags.nearest(name) {
            Some(known) => format!("unknown environment variable '{name}'; a similar variable exists: '{known}'"),
            None => format!("unknown environment variable '{name}'; variables of flags are named CONTROLLER_<FLAG>"),
        };
        let lines: Vec<_> = unknown.iter().map(line).collect();
        Some(Cli::command().error(ErrorKind::UnknownArgument, lines.join("\n       ")))
    }

    /// Adds to an error of the command line which variables have set the flags that it names.
    pub fn with_origins(&self, mut error: Error) -> Error {
        let named = [ContextKind::InvalidArg, ContextKind::PriorArg];
        let texts = named.iter().filter_map(|kind| error.get(*kind)).flat_map(|value| match value {
            ContextValue::String(text) => vec![text.clone()],
            ContextValue::Strings(texts) => texts.clone(),
            _ => Vec::new(),
        });
        let texts: Vec<_> = texts.collect();
        let origins = self.origins(&texts.join(" "));
        if !origins.is_empty() {
            let present = match error.get(ContextKind::Suggested) {
                Some(ContextValue::StyledStrs(present)) => present.clone(),
                _ => Vec::new(),
            };
            let all = present.into_iter().chain(origins.into_iter().map(StyledStr::from)).collect();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(all));
        }
        error
    }

    /// A line for each flag in a message that a variable has set; empty if the command line has set all of them.
    pub fn origin_lines(&self, message: &str) -> String {
        self.origins(message).into_iter().map(|origin| format!("\n  tip: {origin}")).collect()
    }

    fn origins(&self, message: &str) -> Vec<String> {
        let end = |character: char| !(character.is_ascii_alphanumeric() || character == '-');
        let words: BTreeSet<_> = message.split(end).filter(|word| word.starts_with("--")).collect();
        let named = words.iter().filter_map(|word| self.flags.0.get(*word).map(|flag| (*word, flag)));
        let set = named
            .filter(|(name, flag)| self.variables.contains(&flag.variable) && !self.is_on_command_line(name, flag));
        set.map(|(name, flag)| format!("{name} is set by the environment variable {}", flag.variable)).collect()
    }

    fn is_on_command_line(&self, name: &str, flag: &Flag) -> bool {
        let long = |argument: &str| argument.strip_prefix(name).is_some_and(|it| it.is_empty() || it.starts_with('='));
        let short = |argument: &str| {
            let mut letters = argument.chars();
            letters.next() == Some('-') && letters.next().is_some_and(|letter| flag.short == Some(letter))
        };
        self.arguments.iter().any(|argument| long(argument) || short(argument))
    }
}

/// Returns whether Kubernetes adds a variable of this name to Pods because of a Service.
fn is_of_a_service(name: &str) -> bool {
    let service = name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.ends_with("_PORT");
    service || name.contains("_SERVICE_PORT_") || name.match_indices("_PORT_").any(|(at, _)| is_of_a_port(name, at))
}

/// Returns whether `_PORT_` at this position begins the end of a name such as `_PORT_10255_TCP_ADDR`.
fn is_of_a_port(name: &str, at: usize) -> bool {
    let mut words = name.get(at..).unwrap_or_default().split('_').skip(2);
    let number = words.next().is_some_and(|word| word.parse::<u16>().is_ok());
    let protocol = words.next().is_some_and(|word| ["TCP", "UDP", "SCTP"].contains(&word));
    let part = words.next().is_none_or(|word| ["PROTO", "PORT", "ADDR"].contains(&word));
    number && protocol && part && iter::empty::<&str>().eq(words)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use clap::Parser;

    use super::*;

    fn environment(variables: &[&str], line: &str) -> Environment {
        let words = |words: &mut dyn Iterator<Item = &str>| words.map(str::to_owned).collect::<Vec<_>>();
        Environment::new(words(&mut variables.iter().copied()), words(&mut line.split_whitespace()))
    }

    #[test]
    fn an_unknown_variable_is_an_error_with_the_nearest_name() {
        for (unknown, known) in [
            ("CONTROLLER_FEATURE_GATE", "'CONTROLLER_FEATURE_GATES'"),
            ("HOLDFAST_FEATURE_GATES", "'CONTROLLER_FEATURE_GATES'"),
            ("CONTROLLER_USE_LAST_VALID", "'CONTROLLER_USE_LAST_VALID_CONFIG_FOR_FALLBACK'"),
            ("HOLDFAST_LOGLEVEL", "'CONTROLLER_LOG_LEVEL'"),
            ("CONTROLLER_ZZZ", "CONTROLLER_<FLAG>"),
        ] {
            let error = environment(&["PATH", unknown, "CONTROLLER_LOG_LEVEL"], "").unknown().unwrap();
            assert_eq!(error.exit_code(), 2);
            let text = error.to_string();
            assert!(text.contains(&format!("'{unknown}'")) && text.contains(known), "{text}");
        }
        let all = environment(&["CONTROLLER_ENVOYS", "CONTROLLER_PROBES"], "").unknown().unwrap().to_string();
        assert!(all.contains("'CONTROLLER_ENVOY'") && all.contains("'CONTROLLER_PROBE'"), "{all}");
    }

    #[test]
    fn variables_of_flags_and_of_services_are_no_error() {
        for name in [
            "CONTROLLER_LOG_LEVEL",
            "CONTROLLER_SHARED_STORE",
            "CONTROLLER_RATE_LIMIT_SERVICE",
            "CONTROLLER_OUTPUT",
            "HOLDFAST_SERVICE_HOST",
            "HOLDFAST_XDS_SERVICE_PORT",
            "HOLDFAST_XDS_SERVICE_PORT_GRPC_TLS",
            "HOLDFAST_PORT",
            "HOLDFAST_PORT_10255_TCP",
            "HOLDFAST_PORT_10255_TCP_ADDR",
            "CONTROLLER_PORT_53_UDP_PROTO",
            "HOLDFASTER",
        ] {
            assert!(environment(&[name], "").unknown().is_none(), "{name}");
        }
        for name in ["HOLDFAST_PORT_X_TCP", "HOLDFAST_PORT_1_TCP_NAME", "HOLDFAST_PORT_1", "HOLDFAST_PORT_1_TCP_ADDR_X"]
        {
            assert!(environment(&[name], "").unknown().is_some(), "{name}");
        }
    }

    #[test]
    fn an_error_of_the_command_line_names_the_variable_that_set_the_flag() {
        let parsed = |line: &str| Cli::try_parse_from(iter::once("holdfast").chain(line.split(' '))).unwrap_err();
        let wrong = || parsed("run --manifests m --feature-gates Telepathy=true");
        let error = environment(&["CONTROLLER_FEATURE_GATES"], "run").with_origins(wrong());
        let text = error.to_string();
        assert!(text.contains("tip: --feature-gates is set by the environment variable CONTROLLER_FEATURE_GATES"));
        for line in ["run --feature-gates Telepathy=true", "run --feature-gates=Telepathy=true"] {
            let text = environment(&["CONTROLLER_FEATURE_GATES"], line).with_origins(wrong()).to_string();
            assert!(!text.contains("environment"), "{text}");
        }
        let text = environment(&[], "run").with_origins(wrong()).to_string();
        assert!(!text.contains("environment"), "{text}");
        let conflict = parsed("run --manifests m --kubeconfig k");
        let text = environment(&["CONTROLLER_MANIFESTS"], "run --kubeconfig k").with_origins(conflict).to_string();
        assert!(text.contains("--manifests is set by the environment variable CONTROLLER_MANIFESTS"), "{text}");
        let output = || parsed("check -o yaml m");
        let from = |line: &str| environment(&["CONTROLLER_OUTPUT"], line).with_origins(output()).to_string();
        assert!(from("check m").contains("CONTROLLER_OUTPUT") && !from("check -oyaml m").contains("CONTROLLER_OUTPUT"));
    }

    #[test]
    fn an_error_about_settings_names_the_variable_that_set_the_flag() {
        let message = "--max-backfill-age has no effect without --use-last-valid-config-for-fallback=true";
        let lines = environment(&["CONTROLLER_MAX_BACKFILL_AGE"], "run").origin_lines(message);
        assert_eq!(lines, "\n  tip: --max-backfill-age is set by the environment variable CONTROLLER_MAX_BACKFILL_AGE");
        assert_eq!(
            environment(&["CONTROLLER_MAX_BACKFILL_AGE"], "run --max-backfill-age 1h").origin_lines(message),
            ""
        );
    }
}
