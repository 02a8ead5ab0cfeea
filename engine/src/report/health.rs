//! Facts that health is computed from: problems of objects, effects on clients, and the Gateways.

mod clients;
mod endpoints;
mod in_use;
pub(super) mod listeners;
mod overtaken;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, without_field};
use holdfast_api::object::Object;
use holdfast_api::section::{ObjectSection, unit};
use holdfast_check::certificate::DateFault;
use holdfast_check::time::Moment;
use holdfast_envoy::encode::names;
use holdfast_envoy::hold::Refusal;
use holdfast_envoy::inspect::{chain_parts, routes};
use holdfast_envoy::model::Action;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{BackfilledObject, FallbackReport, GatewayState, Identity};
use holdfast_graph::{Detected, Node, ObjectKey, Step};
use holdfast_translate::listener::{ListenerPlan, ListenerState};
use holdfast_translate::query::ClosedHost;
use holdfast_translate::route::{Rendered, Replaced, RoutePlan};
use holdfast_xds::ResourceType;

use super::{ReplacementView, Reports};
use crate::engine::Engine;
use crate::health::SettingsInForce;
use crate::health::facts::{Effect, Facts, GatewayFacts, ObjectProblem, Outside, Refusing};
use crate::health::judge::judge;
use crate::health::view::{DetectedBy as By, Gets, Health};
use crate::report::survey::field;

/// Returns whether objects of a kind are served themselves: clients notice their faults, independent of references to
/// the object.
fn is_served_kind(kind: &str) -> bool {
    const OTHERS: [&str; 4] = [kinds::GATEWAY_CLASS, kinds::GATEWAY, kinds::LISTENER_SET, kinds::HTTP_PROXY];
    kinds::ROUTES.contains(&kind) || OTHERS.contains(&kind)
}

/// The reason of an HTTPProxy that no root includes: no host reaches it.
const ORPHANED: &str = "Orphaned";

/// Answers of Envoys of a held Gateway, by the name of the route or filter chain: the status of a direct response, or
/// unset if the route forwards.
type HeldResponses = BTreeMap<String, Option<u16>>;

/// Answers by Gateway, for Gateways that hold a route configuration at its acknowledged version.
type Holds<'a> = BTreeMap<&'a str, HeldResponses>;

impl Engine {
    /// Returns the health of all served objects.
    pub fn health(&self, outside: Outside) -> Health {
        self.health_of(&self.reports(), outside)
    }

    /// Returns the health of all served objects. `reports`: of this state.
    pub fn health_of(&self, reports: &Reports, outside: Outside) -> Health {
        let settings = Some(SettingsInForce::from(self.settings()));
        Health { settings, namespaces: self.namespaces(), ..judge(&self.facts(reports, outside)) }
    }

    /// Returns the namespaces of objects, each with the Gateways that serve routes of the namespace.
    pub fn namespaces(&self) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        let mut namespaces = BTreeMap::<Arc<str>, BTreeSet<Arc<str>>>::new();
        let keys = self.objects().iter().map(|object| &object.key).chain(self.unreadable().map(|(key, ..)| key));
        for key in keys.filter(|key| !key.namespace.is_empty()) {
            if !namespaces.contains_key(&key.namespace) {
                namespaces.insert(key.namespace.clone(), BTreeSet::new());
            }
        }
        let mut served: BTreeMap<&Arc<str>, BTreeSet<&ObjectKey>> = BTreeMap::new();
        for (key, plan) in self.translator.routes() {
            served.entry(&key.namespace).or_default().extend(plan.gateways());
        }
        for (namespace, gateways) in served {
            let names = gateways.into_iter().map(|gateway| Arc::from(gateway.namespaced_name()));
            namespaces.entry(namespace.clone()).or_default().extend(names);
        }
        namespaces
    }

    /// Returns the facts that health is computed from. `reports`: of this state.
    pub fn facts(&self, reports: &Reports, outside: Outside) -> Facts {
        let Reports { faults, replacements, fallback: report } = reports;
        let mut found = Collected::default().of(self, faults, report);
        let mut effects = Vec::new();
        let holding = self.scopes.gateways().into_iter().filter_map(|(name, scopes)| {
            let mut held = speaking(scopes).filter(|scope| scope.hold.refusals().next().is_some());
            held.next().map(|scope| (&**name, published(scope)))
        });
        let holds: Holds<'_> = holding.collect();
        for view in replacements {
            effects.extend(self.replaced(view.clone(), &holds));
        }
        for state in &report.gateways {
            self.steps(report, state, &holds, &mut effects);
            self.held_back(state, &mut effects);
        }
        self.closed_by_policies(&mut effects);
        effects.extend(clients::without_certificate(self));
        self.without_any_version(report, &mut effects);
        listeners::listener_effects(self, report, &mut effects);
        effects.extend(in_use::proxies_at_ports_in_use(self));
        endpoints::services_without_endpoints(self, &mut found, &mut effects);
        overtaken::remove_overtaken(self, &holds, &mut effects);
        effects.sort_by(|a, b| (&a.object, &a.gateway, &a.section).cmp(&(&b.object, &b.gateway, &b.section)));
        effects.dedup();
        let gateways = report.gateways.iter().map(|state| self.gateway_facts(state)).collect();
        Facts { found, effects, gateways, outside }
    }

    /// Returns a scope of a Gateway with connected Envoys, preferably one with an overlay; any scope if no Envoy is
    /// connected.
    fn scope_of(&self, gateway: &str) -> Option<&FallbackScope> {
        let scopes = || speaking(self.scopes.of(gateway));
        scopes().find(|scope| !scope.derived.overlay.is_empty()).or_else(|| scopes().next())
    }

    /// Returns a scope of a Gateway that decided this step for the object. Scopes of several builds can differ.
    fn scope_of_step(&self, gateway: &str, key: &ObjectKey, step: Step) -> Option<&FallbackScope> {
        let decides = |scope: &&FallbackScope| {
            let own = scope.derived.plan.decisions.range(Node::whole(key.clone())..);
            own.take_while(|(node, _)| node.key == *key).any(|(_, decision)| decision.step == step)
        };
        speaking(self.scopes.of(gateway)).find(decides).or_else(|| self.scope_of(gateway))
    }

    /// Returns the effect of a rule that was replaced.
    fn replaced(&self, view: ReplacementView, holds: &Holds<'_>) -> Option<Effect> {
        let ReplacementView { gateway, object, section, response, message, policy, .. } = view;
        let scope = self.scope_of(&gateway);
        let plan = scope.and_then(|scope| self.translator.served_share(&scope.id.fleet, &object));
        let plan = plan.or_else(|| self.translator.route(&object).cloned());
        let version = scope.and_then(|scope| served_version(scope, &object));
        // A listener without a response is one that forwards connections.
        let without = if plan.is_some() { Gets::Nothing } else { Gets::Refused };
        let mut gets = response.map_or(without, |status| Gets::Status { status });
        let ways = plan.as_ref().and_then(|plan| ways(plan, &section, (response, &message)));
        if let (Some(plan), Some(status)) = (&plan, response)
            && own(plan, &section)
                .filter(|rendered| is_on(rendered, ways.as_ref()))
                .any(|route| matches!(route.route.action, Action::Forward(_) | Action::Redirect(_)))
        {
            gets = Gets::Share { status };
        }
        if let Some(stream) = plan.as_ref().and_then(|plan| plan.stream.as_ref()) {
            gets = if stream.uses().is_empty() { Gets::Refused } else { Gets::RefusedShare };
        }
        if let (Some(answers), Some(plan)) = (holds.get(&*gateway), &plan) {
            gets = in_a_hold(answers, plan, &section, gets)?;
        }
        let of_listener = || (self.hosts_of_listener(&gateway, &object, &section), BTreeSet::new());
        let of_plan = |plan: &Arc<RoutePlan>| match &ways {
            Some(ways) => requests_on(plan, &gateway, &section, ways),
            None => requests(plan, &gateway, &section),
        };
        let (hosts, paths) = plan.as_ref().map_or_else(of_listener, of_plan);
        Some(Effect {
            object: self.identity(&object, None),
            gateway: gateway.into(),
            section: section.into(),
            listener: None,
            gets,
            hosts,
            paths,
            causes: policy.into_iter().collect(),
            causing_section: "".into(),
            message,
            version,
        })
    }

    /// Adds the effects of the fallback's steps.
    fn steps(&self, report: &FallbackReport, state: &GatewayState, holds: &Holds<'_>, effects: &mut Vec<Effect>) {
        let here = effects.iter().enumerate().filter(|(_, effect)| effect.gateway == state.name);
        let known = here.map(|(index, effect)| (Node::section(effect.object.key(), effect.section.clone()), index));
        let known: BTreeMap<Node, usize> = known.collect();
        let backfilled = report.backfilled_objects.iter().map(|known| (known.object.key(), known));
        let backfilled: BTreeMap<ObjectKey, &BackfilledObject> = backfilled.collect();
        for (node, (step, number)) in &state.deviations.steps {
            let scope = self.scope_of_step(&state.name, &node.key, *step);
            let object = self.identity(&node.key, scope);
            let plan = scope.and_then(|scope| self.translator.served_share(&scope.id.fleet, &node.key));
            let plan = plan.or_else(|| self.translator.route(&node.key).cloned());
            // A route without a host at this Gateway has no effect on clients of the Gateway.
            let desired = self.translator.route(&node.key);
            if plan.is_some() && !plan.iter().chain(desired).any(|plan| has_place(plan, &state.name)) {
                continue;
            }
            let is_listener = matches!(ObjectSection::parse(&node.section), ObjectSection::Listener(_));
            let gets = match step {
                Step::Backfilled => {
                    let known = backfilled.get(&node.key);
                    let since = known.map(|known| known.served_since).unwrap_or_default();
                    let except = known.map(|known| known.desired_sections.clone()).unwrap_or_default();
                    Gets::LastValid { generation: *number, since, except }
                }
                Step::Replaced => Gets::Status { status: u16::try_from(*number).unwrap_or_default() },
                Step::Excluded | Step::Current if is_listener => self.closed_listener(scope, node),
                // For a policy, a Secret or a Service that is left out, the routes that need it report the effect.
                Step::Excluded | Step::Current if !is_served_kind(&node.key.kind) => continue,
                Step::Excluded | Step::Current => left_out(plan.as_deref()),
            };
            let gets = match (holds.get(&*state.name), &plan) {
                (Some(answers), Some(plan)) if *step != Step::Backfilled && !is_listener => {
                    in_a_hold(answers, plan, &node.section, gets)
                }
                _ => Some(gets),
            };
            let Some(mut gets) = gets else { continue };
            let (mut hosts, paths) = plan.map(|plan| requests(&plan, &state.name, &node.section)).unwrap_or_default();
            if is_listener {
                hosts.extend(self.listener_of(scope, node).and_then(|listener| listener.hostname.clone()));
            } else if let ObjectSection::Hostname(index) = ObjectSection::parse(&node.section) {
                hosts = hostname(self.objects().get(&node.key), index).into_iter().collect();
                // No client can name such a host.
                if hosts.iter().any(|host| holdfast_check::host::hostname(host).is_err()) {
                    (gets, hosts) = (Gets::LeftOut, BTreeSet::new());
                }
            }
            let causes = causes(scope, node);
            let section = if is_listener { self.listener_field(scope, node) } else { node.section.clone() };
            // Translation reports the same effect, with its reason.
            let same = known.get(&Node::section(node.key.clone(), section.clone()));
            if let Some(known) = same.and_then(|index| effects.get_mut(*index)) {
                known.causes.extend(causes);
                continue;
            }
            let (gateway, message) = (state.name.clone(), String::new());
            let is_own = causes.len() == 1 && causes.contains(&node.key);
            let causing_section = if is_listener && is_own { node.section.clone() } else { "".into() };
            let version = None;
            effects.push(Effect {
                object,
                gateway,
                section,
                listener: None,
                gets,
                hosts,
                paths,
                causes,
                causing_section,
                message,
                version,
            });
        }
    }

    /// Returns what clients get of a listener that is left out.
    fn closed_listener(&self, scope: Option<&FallbackScope>, node: &Node) -> Gets {
        let served = scope.and_then(|scope| {
            let plan = self.translator.served_gateway(&scope.id.fleet)?;
            let listener = plan.listeners.iter().find(|listener| listener.unit(&scope.id.gateway) == *node)?;
            Some(listeners::closed(listener, plan))
        });
        served.unwrap_or(Gets::Refused)
    }

    /// Returns the field of a listener in its object, in the form of faults.
    fn listener_field(&self, scope: Option<&FallbackScope>, node: &Node) -> Arc<str> {
        self.listener_of(scope, node).map_or_else(|| node.section.clone(), listeners::field)
    }

    /// Returns the hostname of a listener, by its owner and its field; none for any other object.
    fn hosts_of_listener(&self, gateway: &str, owner: &ObjectKey, section: &str) -> BTreeSet<Arc<str>> {
        let plans = self.translator.plans().into_iter().filter(|(_, plan)| *plan.name == *gateway);
        let listeners = plans.flat_map(|(key, plan)| plan.listeners.iter().map(move |listener| (key, listener)));
        let mut own =
            listeners.filter(|(key, listener)| listener.owner(key) == owner && *listeners::field(listener) == *section);
        own.next().and_then(|(_, listener)| listener.hostname.clone()).into_iter().collect()
    }

    fn listener_of(&self, scope: Option<&FallbackScope>, node: &Node) -> Option<&ListenerPlan> {
        let gateway = &scope?.id.gateway;
        self.translator.gateway(gateway)?.listeners.iter().find(|listener| listener.unit(gateway) == *node)
    }

    /// Adds objects that are held at their acknowledged version, or not served since no version was acknowledged.
    fn held_back(&self, state: &GatewayState, effects: &mut Vec<Effect>) {
        for scope in speaking(self.scopes.of(&state.name)) {
            for (key, refusal) in scope.held() {
                let is_served = scope.hold.acknowledged(refusal.kind, &refusal.resource).is_some();
                let effect = Effect {
                    object: self.identity(&key, Some(scope)),
                    gateway: state.name.clone(),
                    section: "".into(),
                    listener: None,
                    gets: if is_served { Gets::AsBefore } else { Gets::Refused },
                    hosts: BTreeSet::new(),
                    paths: BTreeSet::new(),
                    causes: BTreeSet::new(),
                    causing_section: "".into(),
                    message: refused(refusal),
                    version: None,
                };
                effects.push(effect);
            }
        }
    }

    /// Adds unreadable objects without an earlier version that could be served.
    fn without_any_version(&self, report: &FallbackReport, effects: &mut Vec<Effect>) {
        let known: BTreeSet<ObjectKey> = effects.iter().map(|effect| effect.object.key()).collect();
        for excluded in report.excluded_by_steps().filter(|excluded| excluded.section.is_empty()) {
            let key = excluded.object.key();
            if known.contains(&key) || !self.is_unreadable(&key) || !is_served_kind(&key.kind) {
                continue;
            }
            effects.push(Effect::left_out(&excluded.object, ""));
        }
    }

    /// Adds routes that policies of their Gateway or listener close.
    fn closed_by_policies(&self, effects: &mut Vec<Effect>) {
        for (name, scopes) in self.scopes.gateways() {
            let Some(scope) = speaking(scopes).next() else { continue };
            let mut closed: BTreeMap<_, BTreeSet<Arc<str>>> = BTreeMap::new();
            for ClosedHost { route, listener, host, policy } in self.translator.closed_hosts(&scope.id.fleet) {
                closed.entry((route, listener, policy)).or_default().insert(host);
            }
            for ((route, listener, policy), hosts) in closed {
                effects.push(Effect {
                    object: self.identity(route, Some(scope)),
                    gateway: name.clone(),
                    section: "".into(),
                    listener,
                    gets: match kinds::STREAM_ROUTES.contains(&&*route.kind) {
                        true => Gets::Refused,
                        false => Gets::Status { status: self.settings().closed_status },
                    },
                    hosts,
                    paths: BTreeSet::new(),
                    causes: BTreeSet::from([policy.clone()]),
                    causing_section: "".into(),
                    message: format!("{} {} cannot be enforced", policy.kind, policy.namespaced_name()),
                    version: None,
                });
            }
        }
    }

    fn gateway_facts(&self, state: &GatewayState) -> GatewayFacts {
        let key = self.scopes.gateways().into_iter().find(|(name, _)| **name == state.name);
        let key = key.and_then(|(_, scopes)| scopes.first()).map(|scope| scope.id.gateway.clone());
        let (namespace, name) = state.name.split_once('/').unwrap_or(("", &state.name));
        let key =
            key.unwrap_or_else(|| ObjectKey::new(holdfast_api::apis::gateway::GROUP, kinds::GATEWAY, namespace, name));
        let plan = self.translator.gateway(&key);
        let serving = plan.into_iter().flat_map(|plan| plan.all().map(|listener| (plan.address, listener)));
        let serving = serving.filter(|(_, listener)| listener.state == ListenerState::Serving);
        let listeners: BTreeSet<String> =
            serving.map(|(address, listener)| format!("{address}:{}", listener.port)).collect();
        let refusing = speaking(self.scopes.of(&state.name)).flat_map(|scope| {
            scope.held_envoys().map(|(node, outlier)| {
                (node.clone(), Refusing { message: outlier.message().to_owned(), serves: outlier.serves() })
            })
        });
        let provisioned = self.provisioned.get(&key).filter(|_| self.settings().provision);
        GatewayFacts {
            object: self.identity(&key, None),
            state: state.clone(),
            listeners: listeners.into_iter().collect(),
            refusing: refusing.collect(),
            provisioning: provisioned.and_then(|provisioned| provisioned.problem.clone()),
        }
    }
}

/// Returns what clients get of a part of a route that is left out.
fn left_out(plan: Option<&RoutePlan>) -> Gets {
    if plan.is_some_and(|plan| plan.stream.is_some()) { Gets::Refused } else { Gets::Nothing }
}

/// Returns a hostname of a route.
fn hostname(object: Option<&Arc<Object>>, index: usize) -> Option<Arc<str>> {
    object?.body.route()?.hostnames().get(index).cloned()
}

/// Returns the objects that caused the decisions about a node.
fn causes(scope: Option<&FallbackScope>, node: &Node) -> BTreeSet<ObjectKey> {
    let Some(scope) = scope else { return BTreeSet::new() };
    let own = scope.derived.plan.decisions.range(Node::whole(node.key.clone())..);
    let decided = own.take_while(|(decided, _)| decided.key == node.key).filter(|(decided, _)| {
        decided.section.is_empty() || node.section.is_empty() || decided.section == node.section
    });
    decided.flat_map(|(_, decision)| decision.causes.iter().cloned()).collect()
}

/// Returns the generation of an object that is served instead of the desired generation.
fn served_version(scope: &FallbackScope, object: &ObjectKey) -> Option<i64> {
    let decision = scope.derived.plan.decisions.get(&Node::whole(object.clone()))?;
    let served = scope.derived.served.get(object).filter(|_| decision.step == Step::Backfilled)?;
    Some(served.0)
}

/// Checks whether a Gateway serves a host of a route object.
fn has_place(plan: &RoutePlan, gateway: &str) -> bool {
    plan.places.iter().any(|(at, _, _)| at.namespaced_name() == gateway)
}

/// Returns the routes of a section of a plan; all routes if the section is empty.
fn own<'a>(plan: &'a RoutePlan, section: &'a str) -> impl Iterator<Item = &'a Arc<Rendered>> {
    plan.routes.iter().filter(move |rendered| section.is_empty() || *rendered.route.section == *section)
}

/// The rules above a route, with their indexes, the one that is attached to a Gateway first.
type RulesAbove = Vec<(ObjectKey, usize)>;

/// Returns the rules above a route below which a section of it is replaced with this response and message; `None` if the
/// route is below none.
fn ways<'p>(
    plan: &'p RoutePlan,
    section: &str,
    (response, message): (Option<u16>, &str),
) -> Option<BTreeSet<&'p RulesAbove>> {
    let is_it = |replaced: &Replaced| {
        (&*replaced.section, replaced.response, &*replaced.message) == (section, response, message)
    };
    let own = plan.replaced_below.iter().filter(|(replaced, _)| is_it(replaced));
    let all: BTreeSet<&RulesAbove> = own.flat_map(|(_, ways)| ways).collect();
    (!all.is_empty()).then_some(all)
}

/// Returns whether a rule is served below these rules; any is, if it is below none.
fn is_on(rendered: &Rendered, ways: Option<&BTreeSet<&RulesAbove>>) -> bool {
    ways.is_none_or(|ways| rendered.delegated().is_some_and(|of| ways.contains(&of.chain)))
}

/// Returns the hosts and paths of the requests of a section of a plan at a Gateway, below these rules.
fn requests_on(
    plan: &RoutePlan,
    gateway: &str,
    section: &str,
    ways: &BTreeSet<&RulesAbove>,
) -> (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) {
    let here = |rendered: &&Arc<Rendered>| is_on(rendered, Some(ways));
    let places = own(plan, section).filter(here).filter_map(|rendered| rendered.delegated()).flat_map(|of| &of.places);
    let places = places.filter(|(at, _, _)| at.namespaced_name() == gateway);
    let hosts = places.map(|(_, _, host)| host.domain().into()).collect();
    (hosts, own(plan, section).filter(here).map(|rendered| paths::of(&rendered.route).into()).collect())
}

/// Returns the hosts and paths of the requests of a section of a plan at a Gateway.
fn requests(plan: &RoutePlan, gateway: &str, section: &str) -> (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) {
    let here = plan.places.iter().filter(|(at, _, _)| at.namespaced_name() == gateway);
    let hosts = here.map(|(_, _, host)| host.domain().into()).collect();
    (hosts, own(plan, section).map(|rendered| paths::of(&rendered.route).into()).collect())
}

/// Returns the effect on the requests of a section of a plan at a held Gateway, according to its published route
/// configurations. None if the requests are forwarded as before.
fn in_a_hold(answers: &HeldResponses, plan: &RoutePlan, section: &str, gets: Gets) -> Option<Gets> {
    if plan.stream.is_some() {
        let is_forwarded = |(_, table, host): &(ObjectKey, TableName, Host)| match table {
            TableName::Listener(name) => answers.contains_key(&names::stream(&names::server(name, host))),
            TableName::Port(_) => false,
        };
        return (!plan.places.iter().any(is_forwarded)).then_some(gets);
    }
    let mut known = own(plan, section).filter_map(|rendered| answers.get(&*rendered.route.name)).peekable();
    if known.peek().is_none() {
        // No route of the section is published.
        return Some(Gets::Nothing);
    }
    let statuses: BTreeSet<u16> = known.filter_map(|answer| *answer).collect();
    match (statuses.first(), gets) {
        (Some(status), Gets::Status { .. } | Gets::Nothing) => Some(Gets::Status { status: *status }),
        (_, gets @ Gets::Share { .. }) => Some(gets),
        _ => None,
    }
}

/// Returns the direct responses of a scope's published route configurations, and the filter chains of its published
/// listeners.
fn published(scope: &FallbackScope) -> HeldResponses {
    let of = |kind| scope.configurations.everyone.iter().flat_map(move |everyone| everyone.of(kind).values());
    let responses = of(ResourceType::Route).flat_map(|resource| routes::direct_responses(&resource.body));
    let chains = of(ResourceType::Listener).flat_map(|resource| chain_parts::parts(&resource.body));
    responses.chain(chains.map(|parts| (parts.name, None))).collect()
}

/// Returns the refused resource with Envoy's message, and whether it is sent again without an edit.
fn refused(refusal: &Refusal) -> String {
    format!("{} {}: {}", refusal.kind.short_name(), refusal.resource, refusal.explained())
}

/// Findings without duplicates.
#[derive(Default)]
struct Collected {
    found: BTreeMap<(ObjectKey, String, String), ObjectProblem>,
}

impl Collected {
    fn of(mut self, engine: &Engine, faults: &[Fault], report: &FallbackReport) -> Vec<ObjectProblem> {
        for fault in faults {
            self.fault(engine, fault.clone());
        }
        for state in &report.gateways {
            for scope in speaking(engine.scopes.of(&state.name)) {
                self.scope(engine, scope);
            }
        }
        // Objects that cannot be read, and that are not known to any scope.
        for broken in &report.broken_objects {
            let key = broken.object.key();
            if !self.has_error(&key, "") {
                let message = broken.message.clone();
                let found = self.entry(engine, &key, broken.field.clone(), message, "Unreadable");
                found.since = Some(broken.since);
                found.gateways.extend(broken.gateways.iter().cloned());
            }
        }
        let scopes = report.gateways.iter().flat_map(|state| speaking(engine.scopes.of(&state.name)));
        let why_not = scopes.flat_map(|scope| scope.derived.not_backfilled.clone());
        let broken = report.broken_objects.iter();
        let of_broken = broken.filter_map(|broken| Some((broken.object.key(), broken.not_backfilled.clone()?)));
        let why_not: BTreeMap<ObjectKey, Arc<str>> = why_not.chain(of_broken).collect();
        for found in self.found.values_mut().filter(|found| found.class != Class::Ignored) {
            found.not_backfilled = why_not.get(&found.object.key()).cloned();
        }
        self.found.into_values().collect()
    }

    fn has_error(&self, key: &ObjectKey, section: &str) -> bool {
        self.errors(key, section).next().is_some()
    }

    fn errors<'a>(&'a self, key: &'a ObjectKey, section: &'a str) -> impl Iterator<Item = &'a ObjectProblem> {
        let own = self.found.range((key.clone(), String::new(), String::new())..);
        let own = own.take_while(move |((of, _, _), _)| of == key).map(|(_, found)| found);
        own.filter(move |found| {
            found.class != Class::Ignored && (section.is_empty() || [section, ""].contains(&unit(&found.field)))
        })
    }

    fn entry(
        &mut self,
        engine: &Engine,
        key: &ObjectKey,
        field: String,
        message: String,
        reason: &str,
    ) -> &mut ObjectProblem {
        let id = (key.clone(), field.clone(), message.clone());
        let is_unreadable = engine.is_why_unreadable(key, &field);
        self.found.entry(id).or_insert_with(|| ObjectProblem {
            object: engine.identity(key, None),
            generation: engine.generation_of(key),
            field,
            class: Class::Invalid,
            reason: reason.to_owned(),
            message,
            detected: By::Translation,
            gateways: BTreeSet::new(),
            since: None,
            used: is_used(engine, key),
            is_served: is_served(engine, key),
            is_unreadable,
            cause: None,
            not_backfilled: None,
        })
    }

    /// Adds a fault. A certificate that is not valid now, or not for long, is at fault itself: renewal is a change of its
    /// Secret.
    fn fault(&mut self, engine: &Engine, fault: Fault) {
        let [not_yet_valid, expired, expiring] = DateFault::REASONS;
        let is_of_dates =
            fault.reason == expiring || (fault.is_error() && [not_yet_valid, expired].contains(&fault.reason));
        let outdated = fault.cause.clone().filter(|_| is_of_dates);
        if let Some(certificate) = outdated.filter(|certificate| *certificate != fault.object) {
            let own = Fault { object: certificate, field: "data".into(), cause: None, ..fault.clone() };
            self.add_fault(engine, own);
        }
        self.add_fault(engine, fault);
    }

    fn add_fault(&mut self, engine: &Engine, fault: Fault) {
        let Fault { object, field, class, reason, message, cause } = fault;
        let message = without_field(&message, &field).to_owned();
        let found = self.entry(engine, &object, field, message, reason);
        (found.class, found.cause) = (class, cause);
        found.used &= found.reason != ORPHANED;
        if let Some(plan) = engine.translator.route(&object) {
            found.gateways.extend(plan.gateways().into_iter().map(|gateway| Arc::from(gateway.namespaced_name())));
        } else if let Some(plan) = engine.translator.gateway(&object) {
            found.gateways.insert(plan.name.clone());
        }
    }

    fn scope(&mut self, engine: &Engine, scope: &FallbackScope) {
        for (node, broken) in &scope.derived.broken {
            let key = &node.key;
            let since = broken.since.or_else(|| scope.verdicts.since.get(key).copied()).map(Moment);
            let is_reported = broken.detected == Detected::Translation && self.has_error(key, &node.section);
            if is_reported {
                let section: &str = &node.section;
                let own: Vec<_> = self
                    .errors(key, section)
                    .map(|found| (key.clone(), found.field.clone(), found.message.clone()))
                    .collect();
                for id in own {
                    if let Some(found) = self.found.get_mut(&id) {
                        found.gateways.insert(scope.id.name.clone());
                        found.since = found.since.into_iter().chain(since).min();
                    }
                }
                continue;
            }
            let field = field(node, broken);
            let message = without_field(&scope.message_of(broken), &field).to_owned();
            let (by, reason) = match scope.detected_of(broken) {
                Detected::Nack => (By::Nack, "Refused"),
                Detected::Probe => (By::Probe, "Refused"),
                Detected::Suspected => (By::Suspected, "Suspected"),
                Detected::Translation => (By::Translation, "Unreadable"),
            };
            // The fault of an object that needs this one, as a listener its certificate, has the reason.
            let is_of_it = |found: &&ObjectProblem| {
                found.cause.as_ref() == Some(key) && !message.is_empty() && found.message.contains(&message)
            };
            let reason = self.found.values().find(is_of_it).map_or(reason.to_owned(), |found| found.reason.clone());
            let found = self.entry(engine, key, field, message, &reason);
            found.detected = by;
            found.gateways.insert(scope.id.name.clone());
            found.since = found.since.into_iter().chain(since).min();
        }
        for (key, refusal) in scope.held() {
            if scope.derived.broken.keys().any(|node| node.key == key) {
                continue;
            }
            let since = scope.verdicts.since.get(&key).copied().map(Moment);
            let found = self.entry(engine, &key, String::new(), refused(refusal), "Refused");
            found.detected = if &*refusal.node == "probe" { By::Probe } else { By::Nack };
            found.gateways.insert(scope.id.name.clone());
            found.since = found.since.into_iter().chain(since).min();
        }
    }
}

/// Checks whether a served object depends on the object.
fn is_used(engine: &Engine, key: &ObjectKey) -> bool {
    // What the target of a policy is meant for is served without the policy.
    let is_partly_unknown = || engine.objects().get(key).is_some_and(|object| object.body.lost_targets());
    if is_served_kind(&key.kind) || is_partly_unknown() {
        return true;
    }
    let translator = &engine.translator;
    let (routes, gateways) = translator.governed_by(key);
    !routes.is_empty()
        || !gateways.is_empty()
        || !translator.routes_reading(key).is_empty()
        || !translator.routes_using(key).is_empty()
}

/// Checks whether a route object, a Gateway or a ListenerSet is served at least in part.
fn is_served(engine: &Engine, key: &ObjectKey) -> bool {
    let translator = &engine.translator;
    translator.route(key).is_some_and(|plan| {
        let forwards = plan.stream.as_ref().is_some_and(|stream| !stream.uses().is_empty());
        (forwards || !plan.routes.is_empty()) && !plan.gateways().is_empty()
    }) || translator.plans().into_iter().any(|(gateway, plan)| {
        let mut own = plan.listeners.iter().filter(|listener| listener.owner(gateway) == key);
        own.any(|listener| listener.state == ListenerState::Serving)
    })
}

/// Identities of objects. The identity of a deleted object is its key.
impl Engine {
    fn generation_of(&self, key: &ObjectKey) -> Option<i64> {
        if self.is_unreadable(key) {
            return None;
        }
        self.objects().get(key).map(|object| object.metadata.generation)
    }

    /// Returns the identity of an object by its key; for a deleted object, as far as the scope `scope` recorded it.
    pub fn identity(&self, key: &ObjectKey, scope: Option<&FallbackScope>) -> Identity {
        crate::report::survey::identity(self, key, scope)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
