//! A line's world that changes at random: objects, versions that were proven, verdicts, time. For tests of the planner
//! and of its checker against each other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Graph, Node, ObjectKey, Quarantine, Verdict};
use serde_json::{Value, json};

use super::mutate::{self, Choose};
use crate::apis::Body;
use crate::engine::Event;
use crate::fallback::checker;
use crate::fallback::derive::{Derived, derive};
use crate::fallback::last_valid::LastValid;
use crate::fallback::world::World;
use crate::fault::Fault;
use crate::object::Object;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::translate::fleet::FleetId;

/// A Gateway with plain and TLS listeners, grants, Services and routes with filters that protect.
const SAMPLE: &str = include_str!("plans.yaml");

/// Certificates with their keys.
const PAIRS: [(&str, &str); 2] = [
    (
        include_str!("../check/certificate/fixtures/rsa2048.crt"),
        include_str!("../check/certificate/fixtures/rsa2048.key"),
    ),
    (include_str!("../check/certificate/fixtures/p521.crt"), include_str!("../check/certificate/fixtures/p521.key")),
];

/// Seconds of Unix time at which everything begins: when the certificates are valid.
const BEGIN: i64 = 1_790_000_000;

/// See the module.
#[derive(Debug)]
pub struct Plans {
    pub(crate) settings: Settings,
    pub(crate) translator: Translator,
    pub(crate) graph: Graph,
    pub(crate) objects: ObjectSnapshot,
    pub(crate) unusable: BTreeSet<ObjectKey>,
    pub(crate) quarantine: Quarantine,
    pub(crate) last_valid: LastValid,
    pub(crate) since: BTreeMap<ObjectKey, i64>,
    pub(crate) now: i64,
    pub(crate) gateway: ObjectKey,
    nothing: BTreeSet<Content>,
    originals: Vec<Value>,
    /// What was written last, of each object.
    written: Vec<Value>,
}

impl Plans {
    /// The sample, all of it proven good.
    pub fn new(choose: &mut Choose<'_>) -> Self {
        let mut settings = Settings::standalone();
        settings.fallback.isolate = true;
        settings.fallback.use_last_valid = true;
        settings.fallback.backfill_dependants = choose(3) != 1;
        settings.fallback.backfill_unresolved = choose(3) == 1;
        settings.fallback.max_backfill_age = (choose(3) == 1).then_some(100);
        if choose(4) == 1 {
            settings.replacement = None;
        }
        let mut originals = super::documents(SAMPLE);
        originals.push(secret("infra", "wildcard", 0));
        originals.push(secret("shop", "cart", 1));
        let mut plans = Self {
            translator: Translator::new(settings.clone()),
            settings,
            graph: Graph::default(),
            objects: ObjectSnapshot::default(),
            unusable: BTreeSet::new(),
            quarantine: Quarantine::new(),
            last_valid: LastValid::default(),
            since: BTreeMap::new(),
            now: BEGIN,
            gateway: ObjectKey::new(crate::apis::gateway::GROUP, "Gateway", "infra", "public"),
            nothing: BTreeSet::new(),
            written: originals.clone(),
            originals,
        };
        for document in plans.originals.clone() {
            plans.apply(document);
        }
        plans.translator.translate(&plans.objects, &mut plans.graph);
        plans.promote();
        plans
    }

    /// Something happens.
    pub fn step(&mut self, choose: &mut Choose<'_>) {
        match choose(10) {
            0 => self.apply(mutate::mutated(&self.originals, choose)),
            1 => {
                if let Some(document) = pick(&self.originals, choose).cloned() {
                    self.apply(document);
                }
            }
            2 => self.delete(choose),
            3 | 4 => self.edit_object(choose),
            5 | 6 => self.edit_rules(choose),
            7 => self.convict(choose),
            8 => self.now += [1, 60, 200, 400_000_000].get(choose(30)).copied().unwrap_or(5),
            _ => self.promote(),
        }
        self.translator.translate(&self.objects, &mut self.graph);
        let mut derived = self.derived();
        checker::enforce(&mut derived, &self.world());
        let broken: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        self.since.retain(|key, _| broken.contains(key));
        for key in broken {
            self.since.entry(key).or_insert(self.now);
        }
        self.translator.lay_over(&FleetId::main(&self.gateway), derived.overlay);
        self.translator.translate(&self.objects, &mut self.graph);
    }

    /// What the checker has against the planner's plan for this world; nothing where both are right.
    pub fn objections(&self) -> Vec<String> {
        let derived = self.derived();
        let world = self.world();
        checker::objections(&derived.overlay, &world).iter().map(ToString::to_string).collect()
    }

    /// How much of the world is served in another version, or closed.
    pub fn altered(&self) -> (usize, usize) {
        let derived = self.derived();
        (derived.overlay.objects.len(), derived.overlay.closed.len())
    }

    /// The planner's plan.
    pub(crate) fn derived(&self) -> Derived {
        derive(&self.world(), &self.graph)
    }

    /// The world as a line sees it.
    pub(crate) fn world(&self) -> World<'_> {
        World {
            gateway: &self.gateway,
            settings: &self.settings,
            objects: &self.objects,
            unusable: &self.unusable,
            translator: &self.translator,
            quarantine: &self.quarantine,
            last_valid: &self.last_valid,
            only_refused: false,
            on_trial: &self.nothing,
            since: &self.since,
            now: self.now,
            candidates: RefCell::default(),
        }
    }

    /// An object is written.
    pub(crate) fn apply(&mut self, document: Value) {
        match super::event(document.clone()) {
            Some(Event::Applied(object, _)) => {
                self.unusable.remove(&object.key);
                let key = object.key.clone();
                let object = Arc::new(*object);
                let old = self.objects.insert(object.clone());
                if old.as_ref().is_some_and(|old| old.metadata.uid != object.metadata.uid) {
                    self.last_valid.forget(&key);
                }
                self.translator.changed(&key, old.as_deref(), Some(&object));
            }
            Some(Event::Unusable(key, _)) => {
                self.unusable.insert(key.clone());
                if !matches!(&*key.kind, "Gateway" | "GatewayClass")
                    && let Some(old) = self.objects.remove(&key)
                {
                    self.translator.changed(&key, Some(&old), None);
                }
            }
            _ => return,
        }
        let name = |document: &Value| {
            ["/kind", "/metadata/namespace", "/metadata/name"].map(|path| document.pointer(path).cloned())
        };
        self.written.retain(|known| name(known) != name(&document));
        self.written.push(document);
    }

    /// An object is deleted.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.unusable.remove(key);
        self.last_valid.forget(key);
        if let Some(old) = self.objects.remove(key) {
            self.translator.changed(key, Some(&old), None);
        }
    }

    /// Translates what changed.
    pub(crate) fn translate(&mut self) {
        self.translator.translate(&self.objects, &mut self.graph);
    }

    fn delete(&mut self, choose: &mut Choose<'_>) {
        let keys: Vec<ObjectKey> = self.objects.sorted().into_iter().map(|object| object.key.clone()).collect();
        let keys: Vec<ObjectKey> = keys.into_iter().chain(self.unusable.iter().cloned()).collect();
        if let Some(key) = pick(&keys, choose).filter(|key| !matches!(&*key.kind, "Gateway" | "GatewayClass")) {
            self.remove(key);
        }
    }

    /// Everything that nothing is wrong with becomes last valid.
    pub(crate) fn promote(&mut self) {
        let objects: Vec<Arc<Object>> = self.objects.sorted().into_iter().cloned().collect();
        for object in objects {
            let good = match &object.body {
                Body::HttpRoute(_) | Body::GrpcRoute(_) => self.translator.route(&object.key).is_some_and(|plan| {
                    let contents = self.translator.contents(&self.gateway, plan);
                    plan.replaced.is_empty()
                        && !plan.faults.iter().any(Fault::is_error)
                        && contents.iter().all(|(content, _)| self.quarantine.get(content).is_none())
                }),
                Body::Secret(_) => {
                    let certificates = self.translator.certificates(&self.gateway);
                    certificates.get(&object.key).is_some_and(|content| self.quarantine.get(content).is_none())
                }
                Body::Service(_) => true,
                _ => false,
            };
            if good {
                self.last_valid.promote(&object, self.now);
            }
        }
    }

    /// An Envoy refuses a part of what is desired; or takes again what it refused.
    fn convict(&mut self, choose: &mut Choose<'_>) {
        if choose(4) == 0 {
            let contents: BTreeSet<Content> = self.quarantine.iter().map(|(content, _)| content).collect();
            let contents: Vec<Content> = contents.into_iter().collect();
            if let Some(content) = pick(&contents, choose) {
                self.quarantine.acquit(content);
            }
            return;
        }
        let plans = self.translator.routes();
        let mut contents: Vec<(Content, Node)> =
            plans.values().flat_map(|plan| self.translator.contents(&self.gateway, plan)).collect();
        let certificates = self.translator.certificates(&self.gateway);
        contents.extend(certificates.into_iter().map(|(key, content)| (content, Node::whole(key))));
        let Some((content, node)) = pick(&contents, choose) else { return };
        let verdict = Verdict {
            node: node.clone(),
            generation: 1,
            detected: Detected::Nack,
            field: "".into(),
            message: "refused".into(),
            since: self.now,
            witnesses: Vec::new(),
        };
        self.quarantine.convict(*content, verdict);
    }

    /// Claims, metadata, grants, ports and certificates change.
    fn edit_object(&mut self, choose: &mut Choose<'_>) {
        let Some(mut document) = pick(&self.written, choose).cloned() else { return };
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let values: &[(&str, Value)] = &match &*kind {
            "HTTPRoute" | "GRPCRoute" => vec![
                ("/spec/hostnames", json!(["cart.example.com"])),
                ("/spec/hostnames", json!(["*.example.com", "grpc.example.org"])),
                ("/spec/hostnames", json!(["bad..host"])),
                ("/spec/hostnames", json!([])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra"}])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "port": 8443}])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "sectionName": "http"}])),
                ("/spec/parentRefs", json!([{"name": "nobody"}])),
                ("/spec/rules", json!("none")),
            ],
            "ReferenceGrant" => vec![
                ("/spec/from/0/namespace", json!("elsewhere")),
                ("/spec/to/0/name", json!("another")),
                ("/spec/to/0/name", json!("")),
            ],
            "Service" => vec![
                ("/spec/ports/0/port", json!(8080)),
                ("/spec/ports", json!("none")),
                ("/spec/type", json!("ExternalName")),
            ],
            "Secret" => vec![
                ("/stringData/tls.crt", json!("broken")),
                ("/stringData", pair(choose(2))),
                ("/stringData", json!({"tls.crt": 1})),
            ],
            "Namespace" => vec![("/metadata/labels/team", json!("none"))],
            "Gateway" => vec![
                ("/spec/listeners/1/hostname", json!("cart.example.com")),
                ("/spec/listeners/2/hostname", json!("*.example.org")),
                ("/spec/listeners/3/allowedRoutes", json!({})),
                ("/spec/listeners/2/tls/certificateRefs/0/name", json!("nobody")),
            ],
            _ => return,
        };
        match choose(6) {
            0 => put(&mut document, "/metadata/uid", json!(format!("uid-{}", choose(3)))),
            1 => put(&mut document, "/metadata/annotations", json!({"holdfast.dev/fallback": "never"})),
            _ => {
                if let Some((path, value)) = pick(values, choose) {
                    put(&mut document, path, value.clone());
                }
            }
        }
        self.apply(document);
    }

    /// Rules of a route change: matches, filters, back ends, their order.
    fn edit_rules(&mut self, choose: &mut Choose<'_>) {
        let routes: Vec<&Value> = self.written.iter().filter(|document| document.pointer("/spec/rules/0").is_some()).collect();
        let Some(mut document) = pick(&routes, choose).map(|document| (*document).clone()) else { return };
        for _ in 0..=choose(2) {
            let Some(Value::Array(rules)) = document.pointer_mut("/spec/rules") else { return };
            let (one, other) = (choose(rules.len()), choose(rules.len()));
            let paths = ["/", "/a", "/a/b", "/images", "/a/[0-9]+", "/a/[", ".*"];
            let path = paths.get(choose(paths.len())).copied().unwrap_or("/");
            let style = if path.contains(['[', '*']) { "RegularExpression" } else { "PathPrefix" };
            let filters = [
                json!([]),
                json!([{"type": "CORS", "cors": {"allowOrigins": ["https://example.com"]}}]),
                json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["X-User"]}}]),
                json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-user", "value": "none"}]}}]),
                json!([{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["x-debug"]}}]),
                json!([{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]),
                json!([{"type": "ExtensionRef"}]),
            ];
            match choose(7) {
                0 => rules.swap(one, other),
                1 if rules.len() > 1 => drop(rules.remove(one)),
                2 => {
                    let rule = rules.get(one).cloned().unwrap_or_default();
                    rules.insert(other, rule);
                }
                3 | 4 => {
                    let rule = rules.get_mut(one);
                    let matches = json!([{"path": {"type": style, "value": path}}]);
                    rule.into_iter().for_each(|rule| put(rule, "/matches", matches.clone()));
                }
                _ => {
                    let filters = pick(&filters, choose).cloned().unwrap_or_default();
                    let rule = rules.get_mut(one);
                    rule.into_iter().for_each(|rule| {
                        let redirects = filters.pointer("/0/requestRedirect").is_some();
                        let backend = if redirects { json!([]) } else { json!([{"name": "cart", "port": 80 + choose(3)}]) };
                        put(rule, "/filters", filters.clone());
                        put(rule, "/backendRefs", backend);
                    });
                }
            }
        }
        self.apply(document);
    }
}

fn secret(namespace: &str, name: &str, which: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": pair(which),
    })
}

fn pair(which: usize) -> Value {
    PAIRS.get(which).map(|(chain, key)| json!({"tls.crt": chain, "tls.key": key})).unwrap_or_default()
}

fn pick<'a, T>(from: &'a [T], choose: &mut Choose<'_>) -> Option<&'a T> {
    from.get(choose(from.len()))
}

/// Puts a value at a path whose parent is there.
fn put(document: &mut Value, path: &str, value: Value) {
    let Some((parent, name)) = path.rsplit_once('/') else { return };
    match document.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.insert(name.to_owned(), value)),
        Some(Value::Array(entries)) => {
            if let Some(entry) = name.parse().ok().and_then(|index: usize| entries.get_mut(index)) {
                *entry = value;
            }
        }
        _ => {}
    }
}
