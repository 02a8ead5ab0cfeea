//! A test scope with random changes: objects, last valid versions, verdicts, time. For tests that compare the planner
//! with its checker.

mod edits;
mod policies;
mod proxies;
mod spoil;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::{Content, Graph, ObjectKey, Quarantine};
use holdfast_test_objects::mutate::Choose;
use holdfast_translate::Translator;
use holdfast_translate::fleet::FleetId;
use serde_json::Value;

use holdfast_fallback::checker;
use holdfast_fallback::checker::Objection;
use holdfast_fallback::evidence::forms::Form;
use holdfast_fallback::evidence::last_valid::LastValid;
use holdfast_fallback::evidence::proof::Proof;
use holdfast_fallback::plan::derive::{Derived, derive};
use holdfast_fallback::plan::fairness::Fairness;
use holdfast_fallback::plan::untried::AcknowledgedRoutes;
use holdfast_fallback::plan::world::World;
use holdfast_fallback::scope::event::Event;

/// A Gateway with plain and TLS listeners, grants, Services and routes with filters that protect.
const SAMPLE: &str = include_str!("sample.yaml");

/// Start time in seconds of Unix time: the certificates are valid then.
const BEGIN: i64 = 1_800_000_000;

/// A scope as test data.
#[derive(Debug)]
pub struct Plans {
    /// The settings.
    pub settings: Settings,
    pub(crate) translator: Translator,
    /// The dependencies of the objects.
    pub graph: Graph,
    /// The objects.
    pub objects: ObjectSnapshot,
    /// Objects with content that cannot be used at all.
    pub unusable: BTreeSet<ObjectKey>,
    /// The contents that Envoys refused.
    pub quarantine: Quarantine,
    /// The last valid versions.
    pub last_valid: LastValid,
    /// The start of the fault of each broken object, in seconds of Unix time.
    pub since: BTreeMap<ObjectKey, i64>,
    /// The current time, in seconds of Unix time.
    pub now: i64,
    proof: Proof,
    acknowledged: BTreeMap<Arc<str>, Form>,
    /// The Gateway.
    pub gateway: ObjectKey,
    /// Its Envoys in translation.
    pub fleet: FleetId,
    nothing: BTreeSet<Content>,
    fairness: Fairness,
    originals: Vec<Value>,
    /// Last written document of each object.
    written: Vec<Value>,
    /// All earlier versions of all objects.
    history: Vec<Arc<Object>>,
}

/// Deviations from the desired objects: a plan, either of the planner or spoilt on purpose.
#[derive(Debug)]
pub struct Fallback(pub(crate) Derived);

impl Fallback {
    /// Returns the number of objects with a stand-in version and the number of objects with closed units.
    pub fn altered(&self) -> (usize, usize) {
        (self.0.overlay.objects.len(), self.0.overlay.closed.len())
    }
}

impl Plans {
    /// Creates the sample, all last valid, with random feature gates.
    pub fn new(choose: &mut Choose<'_>) -> Self {
        let settings = Self::chosen(choose);
        let mut originals = super::documents(SAMPLE);
        originals.push(edits::secret("infra", "wildcard", 0));
        originals.push(edits::secret("shop", "cart", 1));
        Self::of(originals, settings)
    }

    /// Chooses random feature gates.
    fn chosen(choose: &mut Choose<'_>) -> Settings {
        let mut settings = Settings::standalone();
        settings.fallback.isolate = true;
        settings.fallback.use_last_valid = true;
        settings.fallback.backfill_dependants = choose(3) != 1;
        settings.fallback.backfill_unresolved = choose(3) == 1;
        settings.fallback.max_backfill_age = (choose(3) == 1).then_some(100);
        if choose(4) == 1 {
            settings.replacement = None;
        }
        settings
    }

    /// Creates a scope of these objects for the Gateway `infra/public`, all last valid.
    pub fn of(originals: Vec<Value>, settings: Settings) -> Self {
        let gateway = ObjectKey::new(holdfast_api::apis::gateway::GROUP, "Gateway", "infra", "public");
        Self::around(gateway, originals, settings)
    }

    fn around(gateway: ObjectKey, originals: Vec<Value>, settings: Settings) -> Self {
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
            proof: Proof::default(),
            acknowledged: BTreeMap::new(),
            fleet: FleetId::main(&gateway),
            gateway,
            nothing: BTreeSet::new(),
            fairness: Fairness::default(),
            written: Vec::new(),
            history: Vec::new(),
            originals,
        };
        for document in plans.originals.clone() {
            plans.apply(document);
        }
        plans.translate();
        plans.promote();
        plans
    }

    /// Returns the planner's plan before the checker.
    pub fn planned(&self) -> Fallback {
        Fallback(self.derived())
    }

    /// Returns the checker's objections to a plan; empty if planner and checker are correct.
    pub fn objections(&self, fallback: &Fallback) -> Vec<Objection> {
        checker::objections(&fallback.0.overlay, &self.world())
    }

    /// Checks whether the stand-in version of a route has matches that differ from today's object, in any rule.
    ///
    /// The planner compares versions rule by rule; only the checker detects requests that move between rules.
    pub fn has_moved(&self, fallback: &Fallback, key: &ObjectKey) -> bool {
        let (today, served) = (self.objects.get(key), fallback.0.overlay.objects.get(key));
        let matches = |object: Option<&Arc<Object>>| object.map(|object| spoil::matches(&object.body));
        matches(today) != matches(served)
    }

    /// Closes the units that the checker objects to.
    pub fn enforce(&self, fallback: &mut Fallback) {
        checker::enforce(&mut fallback.0, &self.world());
    }

    /// Returns the planner's plan.
    pub fn derived(&self) -> Derived {
        derive(&self.world(), &self.graph)
    }

    /// Returns the inputs of the planner.
    pub fn world(&self) -> World<'_> {
        World {
            gateway: &self.gateway,
            fleet: &self.fleet,
            settings: &self.settings,
            objects: &self.objects,
            unusable: &self.unusable,
            translator: &self.translator,
            quarantine: &self.quarantine,
            fairness: &self.fairness,
            beside: None,
            queued: BTreeSet::new(),
            last_valid: &self.last_valid,
            held: None,
            acknowledged: AcknowledgedRoutes::new(&self.acknowledged),
            proof: &self.proof,
            on_trial: &self.nothing,
            apart: None,
            since: &self.since,
            now_ms: u64::try_from(self.now).unwrap_or_default() * 1000,
            candidates: RefCell::default(),
            of_stand_ins: Default::default(),
        }
    }

    /// Applies an object.
    pub fn apply(&mut self, document: Value) {
        match super::event(document.clone()) {
            Some(Event::Applied(object, _)) => {
                self.unusable.remove(&object.key);
                let key = object.key.clone();
                let object = Arc::new(*object);
                self.history.push(object.clone());
                let old = self.objects.insert(object.clone());
                if old.as_ref().is_some_and(|old| old.metadata.uid != object.metadata.uid) {
                    self.last_valid.forget(&key);
                }
                self.translator.changed(&key, old.as_deref(), Some(&object));
            }
            Some(Event::Unusable(key, _)) => {
                self.unusable.insert(key.clone());
                if !self.objects.get(&key).is_some_and(|object| object.body.is_anchor())
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

    /// Returns the last written document of an object.
    pub fn document(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let is = |document: &&Value, path: &str, wanted: &str| {
            document.pointer(path).and_then(Value::as_str).unwrap_or_default() == wanted
        };
        let mut written = self.written.iter().filter(|document| is(document, "/kind", kind));
        let found = written
            .find(|document| is(document, "/metadata/name", name) && is(document, "/metadata/namespace", namespace));
        found.cloned().unwrap_or_default()
    }

    /// Changes a value of an object.
    pub fn edit(&mut self, (kind, namespace, name): (&str, &str, &str), path: &str, value: Value) {
        let mut document = self.document(kind, namespace, name);
        edits::put(&mut document, path, value);
        self.apply(document);
        self.translate();
    }

    /// Deletes an object.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.unusable.remove(key);
        self.last_valid.forget(key);
        if let Some(old) = self.objects.remove(key) {
            self.translator.changed(key, Some(&old), None);
        }
    }

    /// Translates the changes.
    pub fn translate(&mut self) {
        self.translator.translate(&self.objects, &mut self.graph);
    }

    /// Records every object without a problem as last valid.
    pub fn promote(&mut self) {
        let objects: Vec<Arc<Object>> = self.objects.sorted().into_iter().cloned().collect();
        for object in objects {
            let good = match &object.body {
                Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::HttpProxy(_) => {
                    self.translator.route(&object.key).is_some_and(|plan| {
                        let contents = self.translator.contents(&self.gateway, plan);
                        plan.replaced.is_empty()
                            && !plan.faults.iter().any(Fault::is_error)
                            && contents.iter().all(|(content, _)| self.quarantine.get(content).is_none())
                    })
                }
                Body::Secret(_) => {
                    let certificates = self.translator.certificates(&self.gateway);
                    certificates.get(&object.key).is_some_and(|content| self.quarantine.get(content).is_none())
                }
                Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => {
                    self.translator.policy(&object.key).is_some_and(|plan| {
                        let refused = |(_, content): (_, Content)| self.quarantine.get(&content).is_some();
                        plan.unenforceable.is_none() && !plan.contents().any(refused)
                    })
                }
                Body::Service(_) | Body::GatewayExtension(_) | Body::DirectResponse(_) => true,
                Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) | Body::Backend(_) => {
                    self.translator.backend(&object.key).is_some_and(|plan| plan.unenforceable.is_none())
                }
                _ => false,
            };
            if good {
                self.last_valid.promote(&object, self.now);
            }
        }
    }
}
