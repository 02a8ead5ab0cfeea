//! Health of Gateways: whether an Envoy serves each of them, and whether all Envoys have the current configuration.

use std::sync::Arc;

use holdfast_check::time::Moment;
use holdfast_fallback::view::ServedState;
use holdfast_translate::provision::GATEWAY_LABEL;
use holdfast_xds::managed_node_id;

use super::facts::{GatewayFacts, NotAnswering, Outside, Refusing};
use super::judge::of_gateway;
use super::view::{GatewayHealth, Gets, HealthFinding, ServedInstead, Severity};

/// The reason of a finding about an Envoy that does not answer.
const NOT_ANSWERING: &str = "NotAnswering";

/// Returns the health of a Gateway.
pub(super) fn shown(gateway: &GatewayFacts, outside: &Outside) -> GatewayHealth {
    let state = &gateway.state;
    // The engine counts an Envoy as acknowledged where another Envoy of its build acknowledged.
    let silent = not_answering(gateway, outside).filter(|(_, envoy)| envoy.is_connected).count();
    let mut envoys = state.envoys;
    let pending = envoys.pending.max(silent.min(envoys.acknowledged + envoys.pending));
    envoys.acknowledged = (envoys.acknowledged + envoys.pending).saturating_sub(pending);
    envoys.pending = pending;
    GatewayHealth {
        name: state.name.clone(),
        state: state.state,
        generation: state.generation,
        envoys,
        connected: outside.connected.get(&state.name).copied().unwrap_or_default(),
        listeners: gateway.listeners.len(),
    }
}

/// A problem of a Gateway's Envoys.
struct EnvoyProblem {
    severity: Severity,
    reason: &'static str,
    message: String,
    since: Option<Moment>,
}

impl EnvoyProblem {
    fn new(severity: Severity, reason: &'static str, message: String) -> Self {
        Self { severity, reason, message, since: None }
    }
}

/// Returns the problems of a Gateway's Envoys.
pub(super) fn findings(gateway: &GatewayFacts, outside: &Outside) -> Vec<(Severity, HealthFinding)> {
    let unprovisioned =
        gateway.provisioning.clone().map(|why| EnvoyProblem::new(Severity::Degraded, "NotProvisioned", why));
    let problems = without_envoy(gateway, outside)
        .into_iter()
        .chain(pending(gateway, outside))
        .chain(unverified(gateway))
        .chain(silent(gateway, outside))
        .chain(refusing(gateway))
        .chain(unprovisioned);
    problems.map(|problem| finding(problem, gateway, outside)).collect()
}

fn finding(problem: EnvoyProblem, gateway: &GatewayFacts, outside: &Outside) -> (Severity, HealthFinding) {
    let EnvoyProblem { severity, reason, message, since } = problem;
    let mut finding = of_gateway(&gateway.object, &gateway.state.name, reason, message, since);
    if severity == Severity::Outage {
        finding.served = vec![ServedInstead {
            object: gateway.object.clone(),
            gateway: gateway.state.name.clone(),
            section: "".into(),
            generation: None,
            listener: None,
            gets: if reason == NOT_ANSWERING { Gets::NoResponse } else { Gets::Refused },
            hosts: Default::default(),
            paths: Default::default(),
        }];
    }
    finding.next = next(gateway, &finding, outside);
    (severity, finding)
}

/// Returns the number of Envoys with an answer that is known or expected.
fn answering(gateway: &GatewayFacts) -> usize {
    let envoys = &gateway.state.envoys;
    envoys.acknowledged + envoys.refused + envoys.pending
}

fn connected(gateway: &GatewayFacts, outside: &Outside) -> usize {
    outside.connected.get(&gateway.state.name).copied().unwrap_or_default()
}

/// Reports a Gateway without a connected Envoy. A Gateway without listeners needs no Envoy, and only the leader knows
/// the Envoys of other replicas.
fn without_envoy(gateway: &GatewayFacts, outside: &Outside) -> Option<EnvoyProblem> {
    let is_silent = not_answering(gateway, outside).any(|(_, envoy)| envoy.is_silent);
    let has_envoys = is_silent || answering(gateway) + connected(gateway, outside) > 0;
    if has_envoys || gateway.listeners.is_empty() || !outside.leads {
        return None;
    }
    let at = gateway.listeners.join(", ");
    let managed = outside.managed.get(&gateway.state.name);
    if managed.is_some_and(|envoy| envoy.state == "running" && envoy.serves) {
        let message = format!(
            "its Envoy runs, but is not connected to Holdfast; it serves {at} with the configuration that it received \
             before"
        );
        return Some(EnvoyProblem::new(Severity::Degraded, "NotConnected", message));
    }
    let managed = managed.map(|envoy| match &*envoy.state {
        "running" => " (its Envoy runs, but has not connected to Holdfast since its start)".to_owned(),
        state => format!(" (its Envoy is {state})"),
    });
    let managed = managed.unwrap_or_default();
    let message = format!("no Envoy is connected{managed}: requests to {at} probably get no response");
    Some(EnvoyProblem::new(Severity::Outage, "NoEnvoy", message))
}

/// Reports configuration that has not reached all Envoys yet.
fn pending(gateway: &GatewayFacts, outside: &Outside) -> Option<EnvoyProblem> {
    let (answering, connected, pending) =
        (answering(gateway), connected(gateway, outside), gateway.state.envoys.pending);
    let message = if pending > 0 || (answering == 0 && connected > 0) {
        let all = if answering > 0 { answering } else { connected };
        let pending = pending.max(usize::from(answering == 0) * connected);
        format!("{pending} of {all} Envoys have not acknowledged the whole configuration yet")
    } else {
        on_its_way(gateway.state.state)?.to_owned()
    };
    Some(EnvoyProblem::new(Severity::Degraded, "Pending", message))
}

fn unverified(gateway: &GatewayFacts) -> Option<EnvoyProblem> {
    let message = "the configuration that an earlier run stored is served until all objects have been read";
    let is_unverified = gateway.state.state == ServedState::Unverified && answering(gateway) > 0;
    is_unverified.then(|| EnvoyProblem::new(Severity::Degraded, "Unverified", message.to_owned()))
}

/// Reports Envoys that do not answer. If no other Envoy is connected, clients probably get no response; only the leader
/// knows the Envoys of other replicas.
fn silent(gateway: &GatewayFacts, outside: &Outside) -> impl Iterator<Item = EnvoyProblem> {
    let all = || not_answering(gateway, outside);
    let silent_streams = all().filter(|(_, envoy)| envoy.is_silent && envoy.is_connected).count();
    let is_alone = connected(gateway, outside) <= silent_streams && outside.leads && !gateway.listeners.is_empty();
    let at = gateway.listeners.join(", ");
    all().map(move |(node, NotAnswering { since, is_silent, .. })| {
        let (severity, message) = match (is_silent, is_alone) {
            (true, true) => {
                let message = format!("Envoy {node} does not answer: requests to {at} probably get no response");
                (Severity::Outage, message)
            }
            (true, false) => {
                let gets = "its clients get its previous configuration, or no response";
                (Severity::Degraded, format!("Envoy {node} does not answer: {gets}"))
            }
            (false, _) => {
                let message = format!(
                    "Envoy {node} is connected, but has not answered for 5 seconds or longer: its clients get its \
                     previous configuration, or no response"
                );
                (Severity::Degraded, message)
            }
        };
        EnvoyProblem { severity, reason: NOT_ANSWERING, message, since: Some(*since) }
    })
}

fn refusing(gateway: &GatewayFacts) -> impl Iterator<Item = EnvoyProblem> {
    let others_acknowledged = gateway.state.envoys.acknowledged > 0;
    gateway.refusing.iter().map(move |(node, Refusing { message, serves })| {
        let severity = if *serves && others_acknowledged { Severity::Degraded } else { Severity::Outage };
        let has = match serves {
            true => "keeps its previous configuration",
            false => "has no previous configuration: its clients get 404 or no connection",
        };
        let message = format!("Envoy {node} refuses its new configuration, and {has}: {message}");
        EnvoyProblem::new(severity, "RefusedByOne", message)
    })
}

/// Returns the Envoys of a Gateway that do not answer, by node.
fn not_answering<'a>(
    gateway: &GatewayFacts,
    outside: &'a Outside,
) -> impl Iterator<Item = (&'a Arc<str>, &'a NotAnswering)> {
    outside.not_answering.get(&gateway.state.name).into_iter().flatten()
}

fn on_its_way(state: ServedState) -> Option<&'static str> {
    match state {
        ServedState::Trying => {
            Some("one Envoy tries the new configuration; the others keep the last acknowledged configuration")
        }
        ServedState::Probing => {
            Some("the probe tries the new configuration; Envoys keep the last acknowledged configuration")
        }
        ServedState::Following => Some("the new configuration waits for the leader replica"),
        ServedState::Current
        | ServedState::Partial
        | ServedState::Unverified
        | ServedState::Fallback
        | ServedState::Held => None,
    }
}

fn next(gateway: &GatewayFacts, finding: &HealthFinding, outside: &Outside) -> String {
    let is_gone = ["NoEnvoy", "NotProvisioned", NOT_ANSWERING].contains(&&*finding.reason);
    if outside.input.kubernetes && is_gone && !gateway.object.namespace.is_empty() {
        let (namespace, name) = (&gateway.object.namespace, &gateway.object.name);
        return format!("kubectl --namespace {namespace} get pods --selector {GATEWAY_LABEL}={name}");
    }
    // Envoys that Holdfast does not manage may be connected beside its own one.
    let is_about_managed = &*finding.reason == NOT_ANSWERING
        && finding.message.starts_with(&format!("Envoy {} ", managed_node_id(&gateway.state.name)));
    let pid = outside.managed.get(&gateway.state.name).and_then(|envoy| envoy.pid);
    if let Some(pid) = pid.filter(|_| is_about_managed) {
        return format!("kill -CONT {pid} if the process was stopped; after kill -KILL {pid}, Holdfast starts another");
    }
    if finding.reason == "RefusedByOne" { "/debug/config/raw-error".to_owned() } else { "/debug/envoys".to_owned() }
}
