//! Comparison of the expectations of a story with the actual state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use holdfast_graph::{Node, ObjectKey, Step};
use holdfast_test_support::scopes::{Decided, ScopeSeen, scopes};
use holdfast_xds::ResourceType;
use prost::Message;

use super::answer::{self, SimulatedRequest};
use super::envoy::Envoy;
use super::health;
use super::honest;
use super::invariants;
use super::language::Expect;
use super::stage::StoryStage;

/// Shown characters of a difference.
const TEXT_MAX: usize = 600;
/// Shown entries of each list.
const SHOWN_MAX: usize = 12;

/// `Kind/namespace/name`, or `Kind/name`.
pub fn name(key: &ObjectKey) -> String {
    format!("{}/{}", key.kind, key.namespaced_name())
}

/// `Kind/namespace/name#rules[1]`.
pub fn node_name(node: &Node) -> String {
    if node.section.is_empty() { name(&node.key) } else { format!("{}#{}", name(&node.key), node.section) }
}

/// Compares everything, and reports every difference.
pub fn check(stage: &StoryStage, expected: &Expect) -> Result<()> {
    let mut found = Differences::default();
    let all = stage.engine.as_ref().map(scopes).unwrap_or_default();
    let scope = all.iter().find(|scope| {
        expected.gateway.as_ref().is_none_or(|gateway| **gateway == *scope.gateway)
            && expected.build.as_ref().is_none_or(|build| **build == *scope.build)
    });
    served(stage, expected, &mut found)?;
    if let Some(scope) = scope {
        decided(scope, expected, &mut found);
    } else if expected.steps.is_some() || expected.broken.is_some() || !expected.last_valid.is_empty() {
        bail!("there is no such Gateway or build");
    }
    for (object, text) in stage.engine.iter().flat_map(|_| &expected.not_backfilled) {
        let report = stage.engine.as_ref().map(|engine| engine.fallback()).unwrap_or_default();
        let broken = report.broken_objects.iter().filter(|broken| name(&broken.object.key()) == *object);
        let reasons: Vec<&str> = broken.filter_map(|broken| broken.not_backfilled.as_deref()).collect();
        if !reasons.iter().any(|reason| reason.contains(text.as_str())) {
            found.note(format!("the last valid version of {object} is not served: {reasons:?}; not {text:?}"));
        }
    }
    for (engine, (object, text)) in
        stage.engine.iter().flat_map(|one| expected.conditions.iter().map(move |of| (one, of)))
    {
        let conditions = honest::conditions_of(engine, object);
        let (wanted, is_meant) = text.strip_prefix("not ").map_or((text.as_str(), true), |text| (text, false));
        if conditions.iter().any(|condition| condition.contains(wanted)) != is_meant {
            found.note(format!("conditions of {object}: {conditions:?}; expected {text:?}"));
        }
    }
    if let (Some(wanted), Some(engine)) = (&expected.health, &stage.engine) {
        found.compare("health", wanted, &health::shown(&health::health(stage, engine)));
    }
    for (object, wanted) in &expected.fields {
        let is = stage.engine.as_ref().map(|engine| health::fields(&health::health(stage, engine), object));
        found.compare(&format!("fields of {object}"), wanted, &is.unwrap_or_default());
    }
    for (node, count) in &expected.nacks {
        found.compare(&format!("nacks of {node}"), count, &stage.counts.nacks.get(node).copied().unwrap_or_default());
    }
    for (node, most) in &expected.nacks_at_most {
        let count = stage.counts.nacks.get(node).copied().unwrap_or_default();
        if count > *most {
            found.note(format!("nacks of {node}: {count}, more than {most}"));
        }
    }
    for (node, count) in &expected.pushes {
        found.compare(&format!("pushes to {node}"), count, &stage.counts.pushes.get(node).copied().unwrap_or_default());
    }
    for (node, least) in &expected.pushes_at_least {
        let count = stage.counts.pushes.get(node).copied().unwrap_or_default();
        if count < *least {
            found.note(format!("pushes to {node}: {count}, fewer than {least}"));
        }
    }
    if let Some(wanted) = expected.as_new {
        let differences = invariants::differences_from_new(stage);
        if wanted && !differences.is_empty() {
            found.note(format!("it is not as if everything were read anew:\n    {}", differences.join("\n    ")));
        }
        if !wanted && differences.is_empty() {
            found.note("it is as if everything were read anew".into());
        }
    }
    if found.text.is_empty() {
        return Ok(());
    }
    bail!("{}\nas things stand:\n{}", found.text, state(&all))
}

#[derive(Default)]
struct Differences {
    text: String,
}

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: &T, is: &T) {
        if expected != is {
            self.note(format!("{what}: expected {expected:?}, is {is:?}"));
        }
    }

    fn note(&mut self, text: String) {
        let end = text.char_indices().nth(TEXT_MAX).map_or(text.len(), |(at, _)| at);
        let _ = write!(self.text, "\n  {}", text.get(..end).unwrap_or_default());
    }
}

fn served(stage: &StoryStage, expected: &Expect, found: &mut Differences) -> Result<()> {
    let gateway = |envoy: &&Envoy| expected.gateway.as_ref().is_none_or(|gateway| **gateway == *envoy.id.fleet);
    let build = |envoy: &&Envoy| expected.build.as_ref().is_none_or(|build| **build == *envoy.id.build);
    let there = |envoy: &&Envoy| envoy.connected || !envoy.taken.is_empty();
    let envoys: Vec<&Envoy> = stage.envoys.values().filter(there).filter(gateway).filter(build).collect();
    for (text, wanted) in &expected.routes {
        let request = SimulatedRequest::parse(text)?;
        let queried: Vec<&&Envoy> =
            envoys.iter().filter(|envoy| request.node.as_ref().is_none_or(|node| **node == *envoy.id.node)).collect();
        if queried.is_empty() {
            bail!("{text}: no Envoy can be asked");
        }
        for envoy in queried {
            found.compare(&format!("{text} at {}", envoy.id.node), wanted, &answer::answer(envoy, &request));
        }
    }
    for (text, wanted) in &expected.filtered {
        let request = SimulatedRequest::parse(text)?;
        for envoy in &envoys {
            let config = answer::filters(envoy, &request);
            if !config.contains(wanted.as_str()) {
                found.note(format!("{text} at {}: filters are told {config:?}, not {wanted:?}", envoy.id.node));
            }
        }
    }
    for envoy in &envoys {
        for (service, addresses) in &expected.endpoints {
            let resource = envoy.taken.get(&(ResourceType::Endpoints, format!("service/{service}/80").into()));
            let is = resource.map(|resource| self::addresses(&resource.body)).unwrap_or_default();
            found.compare(&format!("endpoints of {service} at {}", envoy.id.node), addresses, &is);
        }
        for (secret, certificate) in &expected.certificates {
            let resource = envoy.taken.get(&(ResourceType::Secret, format!("secret/{secret}").into()));
            let is = resource.and_then(|resource| stage.certificate(&resource.body)).unwrap_or_else(|| "none".into());
            found.compare(&format!("certificate {secret} at {}", envoy.id.node), certificate, &is);
        }
        for text in &expected.nowhere {
            for ((_, name), resource) in &envoy.taken {
                if String::from_utf8_lossy(&resource.body).contains(text.as_str()) {
                    found.note(format!("{text} stands in {name} at {}", envoy.id.node));
                }
            }
        }
    }
    Ok(())
}

fn addresses(body: &[u8]) -> Vec<String> {
    let assignment = ClusterLoadAssignment::decode(body).unwrap_or_default();
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let address = endpoints.filter_map(|endpoint| match endpoint.host_identifier.as_ref()? {
        HostIdentifier::Endpoint(endpoint) => match endpoint.address.as_ref()?.address.as_ref()? {
            Address::SocketAddress(socket) => Some(socket.address.clone()),
            _ => None,
        },
        HostIdentifier::EndpointName(_) => None,
    });
    address.collect()
}

fn decided(scope: &ScopeSeen, expected: &Expect, found: &mut Differences) {
    if let Some(steps) = &expected.steps {
        let is: BTreeMap<String, &Decided> =
            scope.decided.iter().map(|(node, decided)| (node_name(node), decided)).collect();
        let names: BTreeSet<&String> = steps.keys().chain(is.keys()).collect();
        for name in names {
            let is = is.get(name).map_or_else(|| "current".to_owned(), |decided| step_text(decided));
            let wanted = steps.get(name).map_or("current", |wanted| wanted);
            let is = if wanted.contains("because") { is } else { without_causes(&is).to_owned() };
            let is = if wanted == "backfilled" { is.split(' ').next().unwrap_or_default().to_owned() } else { is };
            found.compare(&format!("step of {name}"), &wanted.to_owned(), &is);
        }
    }
    if let Some(broken) = &expected.broken {
        let mut is: BTreeMap<String, String> = BTreeMap::new();
        for (node, (detected, _)) in &scope.broken {
            is.insert(name(&node.key), detected.to_string());
        }
        found.compare("broken", broken, &is);
    }
    for (object, text) in &expected.messages {
        let messages: Vec<&str> = scope
            .broken
            .iter()
            .filter(|(node, _)| name(&node.key) == *object)
            .map(|(_, (_, message))| &**message)
            .collect();
        if !messages.iter().any(|message| message.contains(text.as_str())) {
            found.note(format!("messages of {object}: {messages:?}; none contains {text:?}"));
        }
    }
    for (object, wanted) in &expected.last_valid {
        let is = scope.last_valid.iter().find(|(key, _)| name(key) == *object);
        let is = is.map_or_else(|| "none".to_owned(), |(_, generation)| generation.to_string());
        found.compare(&format!("last valid {object}"), wanted, &is);
    }
    if let Some(count) = expected.quarantine {
        found.compare("verdicts", &count, &scope.verdicts);
    }
    if let Some(held) = &expected.held {
        found.compare("held", held, &scope.held.iter().cloned().collect());
    }
    if let Some(held) = expected.held_as_a_whole {
        found.compare("held as a whole", &held, &scope.held_as_a_whole);
    }
    if let Some(alone) = &expected.alone {
        found.compare("alone", alone, &scope.alone.iter().map(ToString::to_string).collect());
    }
}

/// `backfilled 1 because HTTPRoute/shop/cart`.
fn step_text(decided: &Decided) -> String {
    let mut text = decided.step.to_string();
    if decided.step == Step::Backfilled {
        let generation = decided.generation.map_or_else(|| "?".to_owned(), |generation| generation.to_string());
        let _ = write!(text, " {generation}");
    }
    let causes: Vec<String> = decided.causes.iter().map(name).collect();
    let _ = write!(text, " because {}", causes.join(", "));
    text
}

fn without_causes(text: &str) -> &str {
    text.split_once(" because").map_or(text, |(step, _)| step)
}

/// Returns the complete state, for the analysis of a failure.
pub fn state(scopes: &[ScopeSeen]) -> String {
    let mut text = String::new();
    for scope in scopes {
        let _ = writeln!(text, "  {} {}: {} verdicts", scope.gateway, scope.build, scope.verdicts);
        for (node, (detected, message)) in scope.broken.iter().take(SHOWN_MAX) {
            let _ = writeln!(text, "    broken {} ({detected}: {message})", node_name(node));
        }
        for (node, decided) in scope.decided.iter().take(SHOWN_MAX) {
            let _ = writeln!(text, "    {} {}", node_name(node), step_text(decided));
        }
        let _ = writeln!(
            text,
            "    held {:?}, as a whole {}, alone {:?}, busy {}",
            scope.held, scope.held_as_a_whole, scope.alone, scope.busy
        );
        let versions: Vec<String> =
            scope.last_valid.iter().take(SHOWN_MAX).map(|(key, g)| format!("{}@{g}", name(key))).collect();
        let _ = writeln!(text, "    last valid {}", versions.join(", "));
    }
    text
}

/// Returns the response of an Envoy to a request, for checks outside of [`Expect`].
pub fn response(stage: &StoryStage, node: &str, request: &str) -> Result<String> {
    let envoy = stage.envoys.get(node).with_context(|| format!("no Envoy {node}"))?;
    Ok(answer::answer(envoy, &SimulatedRequest::parse(request)?))
}
