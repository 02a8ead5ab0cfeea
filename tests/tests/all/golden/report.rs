//! The result of a case as JSON: Gateways with their resources, statuses, faults, replacements, traced requests.

use std::collections::BTreeMap;

use holdfast_api::settings::{CONTROLLER_NAME, INVALID_ROUTE_RESPONSE_BODY};
use holdfast_engine::engine::{Action, Engine, Event};
use holdfast_engine::report::ListenerView;
use holdfast_graph::{Edge, Node, ObjectKey};
use holdfast_test_support as testing;
use holdfast_xds::{Answer, Outcome, ResourceType, Snapshot, to_json};
use serde_json::{Map, Value, json};

use super::case::{CaseStep, GoldenCase};

/// Types with resources that are always shown, abridged. Of other types only names are shown, unless the case shows
/// them in full.
const SHOWN: [ResourceType; 2] = [ResourceType::Route, ResourceType::Endpoints];

/// Translates a case step by step, and compares every step with other ways to the same objects.
pub(super) fn of(case: &GoldenCase) -> Result<Value, String> {
    let mut engine = Engine::new(case.settings.clone());
    let mut world: BTreeMap<ObjectKey, Event> = BTreeMap::new();
    let mut reports = Vec::new();
    for step in &case.steps {
        let actions = engine.handle(step.events.clone());
        for event in &step.events {
            match event {
                Event::Applied(object, _) => world.insert(object.key.clone(), event.clone()),
                Event::Unusable(key, _) => world.insert(key.clone(), event.clone()),
                Event::Deleted(key) => world.remove(key),
                _ => None,
            };
        }
        agree(case, &engine, &world)?;
        if case.acknowledge {
            acknowledge(&mut engine, &actions);
        }
        reports.push(report(case, step, &engine, &actions));
    }
    let unexpected: Vec<String> = case.requests.iter().filter_map(|traced| traced.check(&engine).err()).collect();
    if !unexpected.is_empty() {
        return Err(unexpected.join("\n"));
    }
    if reports.len() == 1 {
        return Ok(reports.remove(0));
    }
    // A later step shows only differences from the step before.
    for at in (1..reports.len()).rev() {
        let (earlier, later) = reports.split_at_mut(at);
        without_repeats(&earlier[at - 1], &mut later[0]);
    }
    Ok(json!({ "steps": reports }))
}

fn without_repeats(earlier: &Value, later: &mut Value) {
    let (Some(earlier), Some(fields)) = (earlier.as_object(), later.as_object_mut()) else { return };
    for (name, old) in earlier {
        match fields.get_mut(name) {
            None => {
                fields.insert(name.clone(), json!("(no more)"));
            }
            // Actions belong to their step.
            Some(_) if name == "actions" => {}
            Some(new) if new == old => {
                fields.remove(name);
            }
            Some(new)
                if ["gateways", "dataPlanes", "statuses", "RDS", "EDS"].contains(&&**name) || name.contains('/') =>
            {
                without_repeats(old, new);
            }
            Some(_) => {}
        }
    }
}

/// Checks that every deviation from the written objects has a fault, and that the result depends only on the objects:
/// not on the order of events, nor on earlier objects.
fn agree(case: &GoldenCase, engine: &Engine, world: &BTreeMap<ObjectKey, Event>) -> Result<(), String> {
    let unreported = testing::unreported(engine);
    if !unreported.is_empty() {
        return Err(format!("no fault tells that {}", unreported.join("; ")));
    }
    let expected = state(case, engine);
    let mut backwards = Engine::new(case.settings.clone());
    for event in world.values().rev() {
        backwards.handle(vec![event.clone()]);
    }
    if state(case, &backwards) != expected {
        let text = |engine: &Engine| super::yaml::write(&state(case, engine));
        let diff = holdfast_golden::diff::lines(&text(engine), &text(&backwards));
        return Err(format!("one by one in another order it comes out differently:\n{diff}"));
    }
    let mut again = Engine::new(case.settings.clone());
    again.handle(world.values().cloned().collect());
    for key in world.keys() {
        again.handle(vec![Event::Deleted(key.clone())]);
    }
    if !again.gateways().is_empty() || !again.faults().is_empty() || again.graph().edge_count() > 0 {
        return Err("something is left when every object is deleted".into());
    }
    again.handle(world.values().cloned().collect());
    if state(case, &again) != expected {
        return Err("deleted and applied again it comes out differently".into());
    }
    Ok(())
}

fn acknowledge(engine: &mut Engine, actions: &[Action]) {
    for action in actions {
        let Action::Publish { gateway, offers } = action else { continue };
        let answers = ResourceType::ALL.into_iter().map(|kind| {
            let resources = offers.everyone.of(kind).values();
            Event::Answered(Answer {
                fleet: gateway.clone(),
                node: "envoy".into(),
                build: "1.40.0".into(),
                kind,
                outcome: Outcome::Acknowledged,
                resources: resources.map(|resource| (resource.name.clone(), Some(resource.version))).collect(),
            })
        });
        engine.handle(answers.collect());
    }
}

fn report(case: &GoldenCase, step: &CaseStep, engine: &Engine, actions: &[Action]) -> Value {
    let mut report = state(case, engine);
    let fields = report.as_object_mut().unwrap();
    if !step.title.is_empty() {
        fields.insert("step".into(), json!(step.title));
        fields.insert("actions".into(), actions.iter().filter_map(action).collect());
    }
    if !step.skipped.is_empty() {
        fields.insert("skipped".into(), json!(step.skipped));
    }
    report
}

/// Returns an action that changes the configuration of Envoys. Actions for the store or the probe are not part of a
/// golden pair.
fn action(action: &Action) -> Option<Value> {
    match action {
        Action::Publish { gateway, .. } => Some(json!(format!("publish {gateway}"))),
        Action::Withdraw { gateway } => Some(json!(format!("withdraw {gateway}"))),
        Action::Try(_) | Action::Store(_) => None,
    }
}

/// Returns everything that is derived from the objects.
fn state(case: &GoldenCase, engine: &Engine) -> Value {
    let mut fields = Map::new();
    let views = engine.gateways();
    let mut gateways = Map::new();
    for view in &views {
        let mut shown = Map::new();
        let listeners: Vec<String> = view.listeners.iter().map(listener).collect();
        shown.insert("listeners".into(), json!(listeners));
        shown.insert("programmed".into(), json!(view.programmed));
        if let Some(snapshot) = engine.fleet(&view.name) {
            shown.extend(ResourceType::ALL.into_iter().filter_map(|kind| resources(case, snapshot, kind)));
        }
        gateways.insert(view.name.to_string(), Value::Object(shown));
    }
    if case.show.contains("brief") {
        let attached = views.iter().flat_map(|view| view.listeners.iter().map(move |one| (view, one)));
        let attached = attached.filter(|(_, one)| one.attached_routes > 0);
        let lines: Vec<String> = attached.map(|(view, one)| format!("{} {}", view.name, listener(one))).collect();
        fields.insert("listeners".into(), json!(lines));
    } else {
        fields.insert("gateways".into(), Value::Object(gateways));
    }
    let mut put = |name: &str, values: Vec<Value>| {
        if !values.is_empty() {
            fields.insert(name.into(), Value::Array(values));
        }
    };
    put("answers", case.requests.iter().map(|traced| traced.trace(engine)).collect());
    put("faults", engine.faults().iter().map(fault).collect());
    put("replacements", engine.replacements().iter().map(replacement).collect());
    if case.show.contains("edges") {
        put("edges", engine.graph().edges().iter().map(edge).collect());
    }
    if case.settings.provision {
        fields.insert("dataPlanes".into(), super::planes::of(case, engine));
    }
    let (fine, not_fine): (Vec<_>, Vec<_>) =
        engine.statuses().into_iter().partition(|status| !case.show.contains("statuses") && is_fine(&status.status));
    if !fine.is_empty() {
        fields.insert("fine".into(), fine.iter().map(|status| short(&status.object)).collect());
    }
    if !not_fine.is_empty() {
        let not_fine = not_fine.into_iter().map(|status| {
            let mut value = status.status;
            if !case.show.contains("statuses") {
                strip_fine_conditions(&mut value);
            }
            (short(&status.object), compact(value))
        });
        fields.insert("statuses".into(), Value::Object(not_fine.collect()));
    }
    Value::Object(fields)
}

fn listener(view: &ListenerView) -> String {
    let mut text = format!("{} {} {}:{}", view.name, view.protocol, view.address, view.port);
    if view.declared_port != i32::from(view.port) {
        text += &format!(" for {}", view.declared_port);
    }
    text += &format!(" {}", view.hostname.as_deref().unwrap_or("*"));
    text += if view.serving { " serving" } else { " not serving" };
    text += &format!(" {} routes", view.attached_routes);
    text
}

fn resources(case: &GoldenCase, snapshot: &Snapshot, kind: ResourceType) -> Option<(String, Value)> {
    let resources = snapshot.of(kind);
    if resources.is_empty() {
        return None;
    }
    let whole = case.show.contains(kind.short_name());
    let value = if whole || SHOWN.contains(&kind) {
        let shown = resources.values().map(|resource| {
            let mut body = canonical(to_json(kind, &resource.body));
            if !whole {
                abridge(&mut body);
            }
            let origins: Vec<String> = resource.origins.iter().map(short).collect();
            body.as_object_mut().unwrap().insert("origins".into(), json!(origins));
            (resource.name.to_string(), body)
        });
        Value::Object(shown.collect())
    } else {
        json!(resources.keys().collect::<Vec<_>>())
    };
    Some((kind.short_name().into(), value))
}

/// Removes names that are shown elsewhere, and fields with their usual constant; any other value stays.
fn abridge(body: &mut Value) {
    let constants = [("ignorePortInHostMatching", json!(true)), ("validateClusters", json!(false))];
    let in_routes = [("clusterNotFoundResponseCode", json!("INTERNAL_SERVER_ERROR")), ("timeout", json!("0s"))];
    let drop = |fields: &mut Value, constants: &[(&str, Value)]| {
        let Some(fields) = fields.as_object_mut() else { return };
        fields.retain(|name, value| !constants.contains(&(name.as_str(), value.clone())));
    };
    let fields = body.as_object_mut().unwrap();
    fields.remove("name");
    fields.remove("clusterName");
    drop(body, &constants);
    for host in body.get_mut("virtualHosts").and_then(Value::as_array_mut).into_iter().flatten() {
        if host["domains"] == json!([host["name"]]) {
            host.as_object_mut().unwrap().remove("name");
        }
        for route in host.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(action) = route.get_mut("route") {
                drop(action, &in_routes);
            }
        }
    }
}

/// Sorts keys, for any map type of `serde_json`, and replaces the long body of replaced routes by a short name.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<String, Value> = fields.into_iter().map(|(k, v)| (k, canonical(v))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(values) => values.into_iter().map(canonical).collect(),
        Value::String(text) => json!(short_body(&text).unwrap_or(text)),
        value => value,
    }
}

/// Returns the short name of the body of replaced routes. It contains the kind if that is not the kind of a route.
fn short_body(text: &str) -> Option<String> {
    const KIND: &str = "HTTPRoute";
    let (before, after) = INVALID_ROUTE_RESPONSE_BODY.split_once(KIND)?;
    let kind = text.strip_prefix(before)?.strip_suffix(after)?;
    Some(match kind {
        KIND | "GRPCRoute" | "HTTPProxy" => "(the body of replaced routes)".to_owned(),
        policy => format!("(the body of replaced routes for {policy})"),
    })
}

pub(crate) fn fault(fault: &holdfast_api::fault::Fault) -> Value {
    let class = serde_json::to_value(fault.class).unwrap();
    let place = format!("{} {}", short(&fault.object), fault.field);
    json!({ "at": place.trim_end(), "is": format!("{} {}", class.as_str().unwrap(), fault.reason), "says": fault.message })
}

fn replacement(view: &holdfast_engine::report::ReplacementView) -> Value {
    json!({
        "at": format!("{} {} of {}", short(&view.object), view.section, view.gateway),
        "cause": view.cause,
        "response": view.response,
        "scope": view.scope,
        "says": view.message,
    })
}

fn edge(edge: &Edge) -> Value {
    let end = |node: &Node| format!("{} {}", short(&node.key), node.section).trim_end().to_owned();
    json!(format!("{} {:?} {}", end(&edge.from), edge.role, end(&edge.to)))
}

fn short(key: &ObjectKey) -> String {
    format!("{} {}", key.kind, key.namespaced_name())
}

/// Checks whether a status reports no problem, as far as Envoy has answered.
fn is_fine(status: &Value) -> bool {
    match status {
        Value::Object(fields) if fields.contains_key("reason") => match fields["type"].as_str().unwrap() {
            "Accepted" | "ResolvedRefs" => fields["reason"] == fields["type"],
            "Programmed" => fields["status"] != "False",
            "Conflicted" => fields["status"] == "False",
            _ => false,
        },
        Value::Object(fields) => fields.values().all(is_fine),
        Value::Array(values) => values.iter().all(is_fine),
        _ => true,
    }
}

/// Removes conditions that report no problem, and defaults of references.
fn strip_fine_conditions(status: &mut Value) {
    let defaults = [("controllerName", CONTROLLER_NAME), ("group", "gateway.networking.k8s.io"), ("kind", "Gateway")];
    match status {
        Value::Object(fields) => {
            fields.retain(|name, value| !defaults.iter().any(|(known, default)| name == known && value == default));
            fields.values_mut().for_each(strip_fine_conditions);
        }
        Value::Array(values) => {
            values.retain(|value| value.get("reason").is_none() || !is_fine(value));
            values.iter_mut().for_each(strip_fine_conditions);
        }
        _ => {}
    }
}

/// Returns a status with each condition on one line.
fn compact(status: Value) -> Value {
    match status {
        Value::Object(fields) => {
            let mut fields = fields;
            // Every GatewayClass has the same features.
            fields.remove("supportedFeatures");
            if let Some(conditions) = fields.remove("conditions") {
                fields.extend(conditions.as_array().unwrap().iter().map(condition));
                // Sub-conditions of an HTTPProxy.
                for (kind, list) in conditions.as_array().unwrap().iter().flat_map(sub_conditions) {
                    fields.insert(kind.to_owned(), list);
                }
            }
            fields.into_iter().map(|(key, value)| (key, compact(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(compact).collect(),
        value => value,
    }
}

/// Returns the errors and warnings of a condition, each on one line.
fn sub_conditions(condition: &Value) -> impl Iterator<Item = (&'static str, Value)> {
    ["errors", "warnings"].into_iter().filter_map(move |kind| {
        let line = |sub: &Value| {
            let text = |name: &str| sub[name].as_str().unwrap();
            json!(format!("{} {}: {}", text("type"), text("reason"), text("message")))
        };
        Some((kind, condition.get(kind)?.as_array()?.iter().map(line).collect()))
    })
}

fn condition(condition: &Value) -> (String, Value) {
    let text = |name: &str| condition[name].as_str().unwrap();
    let mut line = format!("{} {}", text("status"), text("reason"));
    if condition["observedGeneration"] != json!(0) {
        line += &format!(" (generation {})", condition["observedGeneration"]);
    }
    (text("type").to_owned(), json!(format!("{line}: {}", text("message"))))
}
