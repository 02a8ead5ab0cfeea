//! Health of Gateways: whether an Envoy serves each of them, and whether all Envoys have the current configuration.

use std::sync::Arc;

use holdfast_fallback::view::ServedState;
use holdfast_translate::provision::GATEWAY_LABEL;

use super::facts::{GatewayFacts, Outside, Refusing};
use super::judge::of_gateway;
use super::view::{Finding, GatewayHealth, Gets, Served, Severity};

/// Returns the health of a Gateway.
pub(super) fn shown(gateway: &GatewayFacts, outside: &Outside) -> GatewayHealth {
    let state = &gateway.state;
    // The engine counts an Envoy as acknowledged where another Envoy of its build acknowledged.
    let silent = not_answering(gateway, outside).len();
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

/// Returns the problems of a Gateway's Envoys.
pub(super) fn findings(gateway: &GatewayFacts, outside: &Outside) -> Vec<(Severity, Finding)> {
    let (state, counts) = (&gateway.state, &gateway.state.envoys);
    let answering = counts.acknowledged + counts.refused + counts.pending;
    let connected = outside.connected.get(&state.name).copied().unwrap_or_default();
    let mut findings = Vec::new();
    let mut add = |severity, reason: &str, message: String| {
        findings.push((severity, of_gateway(&gateway.object, &state.name, reason, message, None)));
    };
    // A Gateway without listeners needs no Envoy, and only the leader knows the Envoys of other replicas.
    if answering + connected == 0 && !gateway.listeners.is_empty() && outside.leads {
        let at = gateway.listeners.join(", ");
        match outside.managed.get(&state.name) {
            Some(envoy) if envoy.state == "running" && envoy.serves => {
                let message = format!(
                    "its Envoy runs, but is not connected to Holdfast; it serves {at} with the configuration that it \
                     received before"
                );
                add(Severity::Degraded, "NotConnected", message);
            }
            managed => {
                let managed = managed.map(|envoy| match &*envoy.state {
                    "running" => " (its Envoy runs, but has not connected to Holdfast since its start)".to_owned(),
                    state => format!(" (its Envoy is {state})"),
                });
                let managed = managed.unwrap_or_default();
                let message = format!("no Envoy is connected{managed}: requests to {at} probably get no response");
                add(Severity::Outage, "NoEnvoy", message);
            }
        }
    }
    let all = if answering > 0 { answering } else { connected };
    if counts.pending > 0 || (answering == 0 && connected > 0) {
        let pending = counts.pending.max(usize::from(answering == 0) * connected);
        let message = format!("{pending} of {all} Envoys have not acknowledged the whole configuration yet");
        add(Severity::Degraded, "Pending", message);
    } else if let Some(message) = on_its_way(state.state) {
        add(Severity::Degraded, "Pending", message.to_owned());
    }
    if state.state == ServedState::Unverified && answering > 0 {
        let message = "the configuration that an earlier run stored is served until all objects have been read";
        add(Severity::Degraded, "Unverified", message.to_owned());
    }
    for node in not_answering(gateway, outside) {
        let message = format!(
            "Envoy {node} is connected, but has not answered for 5 seconds or longer: its clients get its previous \
             configuration, or no response"
        );
        add(Severity::Degraded, "NotAnswering", message);
    }
    for (node, Refusing { message, serves }) in &gateway.refusing {
        let (severity, has) = match serves {
            true if counts.acknowledged > 0 => (Severity::Degraded, "keeps its previous configuration"),
            true => (Severity::Outage, "keeps its previous configuration"),
            false => (Severity::Outage, "has no previous configuration: its clients get 404 or no connection"),
        };
        add(severity, "RefusedByOne", format!("Envoy {node} refuses its new configuration, and {has}: {message}"));
    }
    if let Some(why) = &gateway.provisioning {
        add(Severity::Degraded, "NotProvisioned", why.clone());
    }
    for (severity, finding) in &mut findings {
        if *severity == Severity::Outage {
            finding.served = vec![Served {
                object: gateway.object.clone(),
                gateway: state.name.clone(),
                section: "".into(),
                gets: Gets::Refused,
                hosts: Default::default(),
                paths: Default::default(),
            }];
        }
        finding.next = next(gateway, finding, outside);
    }
    findings
}

/// Returns the connected Envoys of a Gateway that do not answer.
fn not_answering<'a>(gateway: &GatewayFacts, outside: &'a Outside) -> Vec<&'a Arc<str>> {
    outside.not_answering.get(&gateway.state.name).into_iter().flatten().collect()
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
        ServedState::Current | ServedState::Unverified | ServedState::Fallback | ServedState::Held => None,
    }
}

fn next(gateway: &GatewayFacts, finding: &Finding, outside: &Outside) -> String {
    let is_gone = ["NoEnvoy", "NotProvisioned"].contains(&&*finding.reason);
    if outside.input.kubernetes && is_gone && !gateway.object.namespace.is_empty() {
        let (namespace, name) = (&gateway.object.namespace, &gateway.object.name);
        return format!("kubectl --namespace {namespace} get pods --selector {GATEWAY_LABEL}={name}");
    }
    if finding.reason == "RefusedByOne" { "/debug/config/raw-error".to_owned() } else { "/debug/envoys".to_owned() }
}
