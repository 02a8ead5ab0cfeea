//! Invariants that hold after every step of every story.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use holdfast_api::apis::kinds;
use holdfast_api::status::StatusMap;
use holdfast_engine::engine::{Engine, Event};
use holdfast_graph::{ObjectKey, Step};
use holdfast_test_support::scopes::{ScopeSeen, scopes};
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;

use super::envoy::Envoy;
use super::expect::{name, state};
use super::stage::StoryStage;
use super::{honest, never, never_proxies, never_rules};

/// Maximum wait in milliseconds before Holdfast tries another way.
const WAIT_MS_MAX: u64 = 120_000;

/// Returns a new engine with the same objects, for the configuration without any refusal.
fn new_engine(stage: &StoryStage) -> Engine {
    let mut engine = Engine::new(stage.settings.clone());
    let ports = Event::PortsTaken(stage.taken.clone());
    let objects = stage.objects.values().map(|event| with_scope(stage, event.clone()));
    engine.handle(std::iter::once(ports).chain(objects).collect());
    engine
}

/// Adds the default scope that is in effect to a Gateway of which the scope cannot be read: the new engine cannot know the
/// versions before.
fn with_scope(stage: &StoryStage, mut event: Event) -> Event {
    if let Event::Applied(object, _) = &mut event
        && let Some(served) = stage.engine.as_ref().and_then(|engine| engine.objects().get(&object.key))
    {
        object.body.keep_scope(&served.body);
    }
    event
}

/// Returns the resources of Envoys that differ from the configuration of a new engine.
pub fn differences_from_new(stage: &StoryStage) -> Vec<String> {
    let engine = new_engine(stage);
    let mut differences = Vec::new();
    for envoy in stage.envoys.values().filter(|envoy| envoy.connected && !envoy.silent) {
        let empty = Snapshot::default();
        let wanted = engine.fleet(&envoy.id.fleet).unwrap_or(&empty);
        differences.extend(difference(envoy, wanted).into_iter().map(|slot| format!("{slot} at {}", envoy.id.node)));
    }
    differences
}

pub(super) fn difference(envoy: &Envoy, wanted: &Snapshot) -> Vec<String> {
    let mut names = Vec::new();
    for kind in ResourceType::ALL {
        let has: BTreeMap<&Arc<str>, _> =
            envoy.taken.iter().filter(|((own, _), _)| *own == kind).map(|((_, name), r)| (name, r.version)).collect();
        let should: BTreeMap<&Arc<str>, _> = wanted.of(kind).iter().map(|(name, r)| (name, r.version)).collect();
        let all: BTreeSet<&Arc<str>> = has.keys().chain(should.keys()).copied().collect();
        let differs = all.into_iter().filter(|name| has.get(*name) != should.get(*name));
        names.extend(differs.map(|name| format!("{} {name}", kind.short_name())));
    }
    names
}

/// Checks the invariants of a state without pending messages.
pub fn check(stage: &mut StoryStage) -> Result<()> {
    let collected = stage.engine.as_mut().map(Engine::collect_statuses);
    let (stage, Some(engine)) = (&*stage, &stage.engine) else { return Ok(()) };
    if engine.objects().is_empty() {
        return Ok(());
    }
    let all = scopes(engine);
    let new = new_engine(stage);
    let mut wrong = Vec::new();
    collected_statuses(engine, &collected.unwrap_or_default(), &mut wrong);
    for envoy in stage.envoys.values().filter(|envoy| envoy.connected && !envoy.silent) {
        let Some(scope) = scope_of(envoy, &all) else { continue };
        let empty = Snapshot::default();
        let wanted = new.fleet(&envoy.id.fleet).unwrap_or(&empty);
        endpoints(envoy, wanted, &mut wrong);
        accounted((stage, engine), envoy, scope, wanted, &mut wrong);
        if !scope.busy {
            never::served(stage, envoy, wanted, &mut wrong);
            never_proxies::served(stage, envoy, wanted, &mut wrong);
            never_rules::answered(envoy, scope, wanted, &mut wrong);
        }
    }
    for scope in &all {
        decisions(stage, scope, &mut wrong);
        waits(stage, scope, &mut wrong);
        never::kept(stage, scope, &mut wrong);
    }
    honest::check(stage, engine, &new, &mut wrong);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("what always holds does not:\n  {}\nas things stand:\n{}", wrong.join("\n  "), state(&all))
}

/// Checks that the statuses that are kept from one collection to the next are those of a whole collection.
fn collected_statuses(engine: &Engine, collected: &StatusMap, wrong: &mut Vec<String>) {
    let all: StatusMap =
        engine.statuses().into_iter().map(|status| (status.object.clone(), Arc::new(status))).collect();
    wrong.extend(collected.diff(&all).map(|item| format!("a kept status differs from the one computed now: {item:?}")));
}

/// Returns the state of the decisions about an Envoy.
pub(super) fn scope_of<'a>(envoy: &Envoy, all: &'a [ScopeSeen]) -> Option<&'a ScopeSeen> {
    let of = |scope: &&ScopeSeen| scope.gateway == envoy.id.fleet && scope.build == envoy.id.build;
    let of_gateway = |scope: &&ScopeSeen| scope.gateway == envoy.id.fleet;
    let apart = all.iter().filter(of_gateway).find(|scope| scope.apart.contains(&envoy.id.node));
    apart.or_else(|| all.iter().find(of)).or_else(|| all.iter().find(of_gateway))
}

/// Checks that endpoints are never held back.
fn endpoints(envoy: &Envoy, wanted: &Snapshot, wrong: &mut Vec<String>) {
    for ((kind, name), resource) in &envoy.taken {
        if *kind == ResourceType::Endpoints
            && let Some(newest) = wanted.get(*kind, name)
            && newest.version != resource.version
        {
            wrong.push(format!("{} has old endpoints of {name}", envoy.id.node));
        }
        if *kind == ResourceType::Cluster {
            let name: Arc<str> = name.trim_end_matches("/h2c").into();
            if wanted.get(ResourceType::Endpoints, &name).is_some()
                && !envoy.taken.contains_key(&(ResourceType::Endpoints, name.clone()))
            {
                wrong.push(format!("{} has no endpoints of {name}", envoy.id.node));
            }
        }
    }
}

/// Returns the objects of which a step is reported, and those below them, as the names of their routes begin: a route
/// below an HTTPRoute is where the served version of that one has it.
fn reported(scope: &ScopeSeen, routes: &BTreeSet<&String>) -> BTreeSet<String> {
    let steps = scope.decided.iter().filter(|(_, decided)| decided.step != Step::Current).map(|(node, _)| &node.key);
    let mut all: BTreeSet<String> =
        steps.map(|key| format!("{}/{}", key.kind.to_ascii_lowercase(), key.namespaced_name())).collect();
    let parts = |route: &str| route.split('/').map(str::to_owned).collect::<Vec<_>>();
    loop {
        let before = all.len();
        for route in routes.iter().map(|route| parts(route)) {
            let is_reported = route.windows(3).any(|part| match part {
                [word, namespace, name] => word == "below" && all.contains(&format!("httproute/{namespace}/{name}")),
                _ => false,
            });
            if let Some(own) = route.get(..3).filter(|_| is_reported) {
                all.insert(own.join("/"));
            }
        }
        if all.len() == before {
            return all;
        }
    }
}

/// Checks that each deviation from the desired configuration is reported: as a step of its object, as a held resource,
/// or as an outlier Envoy.
fn accounted(
    (stage, engine): (&StoryStage, &Engine),
    envoy: &Envoy,
    scope: &ScopeSeen,
    wanted: &Snapshot,
    wrong: &mut Vec<String>,
) {
    let waits = a_deleted_policy_is_in_force(stage, engine);
    // The new engine cannot know what a policy was attached to that is now unreadable.
    let unread =
        |(key, event): (&ObjectKey, &Event)| matches!(event, Event::Unusable(..)) && &*key.kind == "TrafficPolicy";
    let waits = waits || stage.objects.iter().any(unread);
    let held = waits || scope.held_as_a_whole || scope.alone.contains(&envoy.id.node) || envoy.ignores || scope.busy;
    // Envoy does not subscribe to a route configuration that only a held listener refers to; it is reported with that
    // listener.
    let a_listener_is_held = wanted.of(ResourceType::Listener).keys().any(|name| scope.held.contains(&**name));
    for (name, resource) in wanted.of(ResourceType::Route) {
        let is_unnamed = a_listener_is_held && !envoy.subscribes_to(ResourceType::Route, name);
        if held || is_unnamed || scope.held.contains(&**name) {
            continue;
        }
        let should = routes(&resource.body);
        let has = envoy.taken.get(&(ResourceType::Route, name.clone()));
        let has = has.map(|resource| routes(&resource.body)).unwrap_or_default();
        let routes: BTreeSet<&String> = should.keys().chain(has.keys()).collect();
        let reported = reported(scope, &routes);
        for route in routes.into_iter().filter(|route| should.get(*route) != has.get(*route)) {
            let reported = reported.iter().any(|object| route.starts_with(&format!("{object}/")));
            // A route may also differ because of an object that it depends on.
            let dependant = scope
                .decided
                .iter()
                .any(|(node, decided)| decided.step != Step::Current && !kinds::ROUTES.contains(&&*node.key.kind));
            if !reported && !dependant {
                wrong.push(format!("{} serves {route} otherwise than desired, and no step tells of it", envoy.id.node));
            }
        }
    }
}

/// Returns whether a deleted TrafficPolicy still applies: it does for a moment after its deletion.
pub(super) fn a_deleted_policy_is_in_force(stage: &StoryStage, engine: &Engine) -> bool {
    engine.objects().iter().any(|object| {
        matches!(object.body, holdfast_api::apis::Body::TrafficPolicy(_)) && !stage.objects.contains_key(&object.key)
    })
}

fn routes(body: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let configuration = RouteConfiguration::decode(body).unwrap_or_default();
    let mut routes = BTreeMap::new();
    for host in configuration.virtual_hosts {
        for route in host.routes.into_iter().filter(|route| !route.name.is_empty()) {
            let name = format!("{}@{}", route.name, host.name);
            // The order of a map is different each time.
            let mut route = route;
            let settings: BTreeMap<_, _> = std::mem::take(&mut route.typed_per_filter_config).into_iter().collect();
            let mut bytes = route.encode_to_vec();
            bytes.extend(format!("{settings:?}").bytes());
            routes.insert(name, bytes);
        }
    }
    routes
}

/// Checks that every wait has a deadline in the near future.
fn waits(stage: &StoryStage, scope: &ScopeSeen, wrong: &mut Vec<String>) {
    for (what, until) in
        scope.waits.iter().filter(|(_, until)| *until <= stage.now_ms() || *until > stage.now_ms() + WAIT_MS_MAX)
    {
        wrong.push(format!("{} waits for {what} until {until}, and now is {}", scope.gateway, stage.now_ms()));
    }
}

/// Checks that each decision refers to an existing object, and that its causes are broken.
fn decisions(stage: &StoryStage, scope: &ScopeSeen, wrong: &mut Vec<String>) {
    let broken: BTreeSet<_> = scope.broken.keys().map(|node| &node.key).collect();
    for (node, decided) in &scope.decided {
        let waits = &*node.key.kind == "TrafficPolicy" && stage.knows(&node.key);
        if !stage.objects.contains_key(&node.key) && !waits {
            wrong.push(format!("{} is {} and does not exist", name(&node.key), decided.step));
        }
        if decided.causes.is_empty() || decided.causes.iter().any(|cause| !broken.contains(cause)) {
            wrong.push(format!("{} is {} because of somebody who is not broken", name(&node.key), decided.step));
        }
    }
}
