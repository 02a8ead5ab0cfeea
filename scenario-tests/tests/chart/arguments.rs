//! Command line of the chart: the program accepts it, and it matches the values.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, Parser};
use holdfast_api::settings::Settings;
use holdfast_cli::cli::{Cli, Command, EnvoyMode};
use holdfast_cli::commands::run::RunArgs;
use holdfast_scenario_tests::{Story, World, stories};

use super::{full, objects, of_kind, render};

pub(crate) fn stories() -> Vec<Story> {
    stories!("arguments", false, [the_defaults_are_the_programs, full_values_reach_the_settings, every_flag_can_be_set])
}

/// Flags that the chart does not set, each with the reason.
const NOT_OF_THE_CHART: [(&str, &str); 6] = [
    ("manifests", "objects are those of the API server"),
    ("kubeconfig", "the Pod has its ServiceAccount"),
    ("kube-context", "there is no kubeconfig"),
    ("envoy-concurrency", "no Envoy is managed by Holdfast itself"),
    ("listen-address", "no Envoy is managed by Holdfast itself"),
    ("shared-store", "Pods of different nodes have no folder in common"),
];

/// Returns the arguments of the container.
async fn arguments(world: &World, args: &[&str]) -> Result<Vec<String>> {
    let all = objects(&render(world, args).await?)?;
    let workload = [of_kind(&all, "StatefulSet"), of_kind(&all, "Deployment")].concat();
    let workload = workload.first().context("no workload")?;
    let arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"].as_array().context("no arguments")?;
    arguments.iter().map(|argument| argument.as_str().map(str::to_owned).context("no text")).collect()
}

fn parse(arguments: &[String]) -> Result<(RunArgs, Settings)> {
    let line = std::iter::once("holdfast").chain(arguments.iter().map(String::as_str));
    let Command::Run(run) = Cli::try_parse_from(line)?.command else { anyhow::bail!("another command") };
    let settings = run.translation.settings()?;
    run.xds.protection(EnvoyMode::None, true)?;
    Ok((*run, settings))
}

async fn the_defaults_are_the_programs(world: World) -> Result<()> {
    let (_, chart) = parse(&arguments(&world, &[]).await?)?;
    let (_, plain) = parse(&["run".to_owned(), "--allow-loopback-backends=false".to_owned()])?;
    ensure!(format!("{chart:?}") == format!("{plain:?}"), "the chart's defaults differ: {chart:?}\n{plain:?}");
    Ok(())
}

async fn full_values_reach_the_settings(world: World) -> Result<()> {
    let (run, settings) = parse(&arguments(&world, &["--values", &full()]).await?)?;
    ensure!(run.xds.xds_token_audience.as_deref() == Some(run.provision.provision_token_audience.as_str()));
    ensure!(run.xds.xds_client_ca.is_some() && run.xds.xds_token_jwks.is_some() && !run.xds.insecure_xds);
    ensure!(run.kubernetes.lease_name == "edge" && run.kubernetes.lease_namespace.as_deref() == Some("holdfast"));
    let replacement = settings.replacement.context("no replacement")?;
    ensure!((replacement.code, &*replacement.body) == (503, "broken: \"see\" #1 {{ here }}"), "{replacement:?}");
    ensure!(settings.fallback.isolate && settings.fallback.use_last_valid && settings.fallback.backfill_unresolved);
    ensure!(run.kubernetes.shared_secrets.is_on(), "two replicas share");
    ensure!(!settings.fallback.backfill_dependants && settings.fallback.max_backfill_age == Some(48 * 3600));
    ensure!(settings.closed_status == 503 && settings.allow_loopback_backends && settings.allow_health_checks_by_name);
    ensure!(settings.proxies.root_namespaces.len() == 2 && settings.proxies.ingress_classes.len() == 2);
    ensure!(settings.proxies.rate_limit.is_some_and(|limits| limits.fail_open && limits.quota_headers));
    ensure!(run.kubernetes.watch_namespaces == ["shop", "infra", "holdfast"], "{:?}", run.kubernetes.watch_namespaces);
    ensure!(run.log_level == "info,holdfast_xds=debug" && run.ack_timeout.as_secs() == 90);
    Ok(())
}

async fn every_flag_can_be_set(world: World) -> Result<()> {
    let mut set = BTreeSet::new();
    // Mutually exclusive values are set one after the other.
    for args in [
        vec!["--values", &full()],
        vec!["--set", "provision.enabled=false,provision.gatewayAddresses={203.0.113.1},xds.tls.enabled=false"],
        vec![],
    ] {
        let arguments = arguments(&world, &args).await?;
        parse(&arguments)?;
        let name = |argument: &String| Some(argument.strip_prefix("--")?.split('=').next()?.to_owned());
        set.extend(arguments.iter().filter_map(name));
    }
    let command = Cli::command();
    let run = command.find_subcommand("run").context("no command run")?;
    let flags: BTreeSet<String> = run.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    for (flag, why) in NOT_OF_THE_CHART {
        ensure!(flags.contains(flag), "--{flag} is gone, which the chart left out because {why}");
        ensure!(!set.contains(flag), "--{flag} is set, though {why}");
    }
    let left_out = |flag: &&String| NOT_OF_THE_CHART.iter().any(|(name, _)| name == *flag);
    let missing: Vec<&String> = flags.difference(&set).filter(|flag| !left_out(flag) && *flag != "help").collect();
    ensure!(missing.is_empty(), "no value sets {missing:?}: give each a value, or say here why it has none");
    Ok(())
}
