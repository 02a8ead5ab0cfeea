//! A line: one Gateway's Envoys of one build, and everything that is known of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::{Content, Graph, ObjectKey, Quarantine};
use holdfast_store::{Batch, Change, Scope, StoredResource};
use holdfast_xds::{ResourceType, Snapshot, Version};

use super::attribution::Attribution;
use super::blame::Search;
use super::checker;
use super::derive::{Derived, derive};
use super::last_valid::LastValid;
use super::proof::Proof;
use super::readmission::Readmission;
use super::rollout::{Stage, TrialRun};
use super::strays::Stray;
use super::whole::Whole;
use super::world::World;
use crate::encode::names;
use crate::fault::Fault;
use crate::features::redirect::ListenerContext;
use crate::hold::{Hold, Standing};
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::translate::fleet::{Composition, FleetId};
use crate::translate::gateway::class_key;
use crate::trial::Trial;

/// Forms of one resource that are remembered, the acknowledged one among them.
pub(crate) const FORMS_MAX: usize = 64;

/// Origins of a resource that are stored with it: for people, who can ask the running Holdfast for all of them.
pub(crate) const STORED_ORIGINS_MAX: usize = 64;

/// A route configuration that was offered, and what it was made of.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// Its version.
    pub(crate) version: Version,
    /// Its parts.
    pub(crate) composition: Composition,
    /// The listeners' part in its bytes.
    pub(crate) context: ListenerContext,
}

/// What a line works with: lent for one step.
pub(crate) struct Around<'a> {
    pub(crate) translator: &'a mut Translator,
    pub(crate) graph: &'a mut Graph,
    pub(crate) objects: &'a ObjectSnapshot,
    pub(crate) unusable: &'a BTreeSet<ObjectKey>,
    /// Objects that are as they were stored, since nothing can be read of them.
    pub(crate) unread: &'a BTreeSet<ObjectKey>,
    /// What was found wrong when objects were decoded.
    pub(crate) decoding: &'a BTreeMap<ObjectKey, Vec<Fault>>,
    pub(crate) settings: &'a Settings,
    /// Milliseconds of Unix time.
    pub(crate) now_ms: u64,
    /// The build of the probe, where there is one.
    pub(crate) probe: Option<&'a Arc<str>>,
    pub(crate) next_trial: &'a mut u64,
    /// How many fallbacks were put into force.
    pub(crate) fallbacks: &'a mut u64,
    pub(crate) trials: &'a mut Vec<Trial>,
}

impl Around<'_> {
    /// Seconds of Unix time.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Could all of an object be read? What could not be is not served: such a version is never whole.
    fn is_whole(&self, key: &ObjectKey) -> bool {
        !self.decoding.get(key).is_some_and(|faults| faults.iter().any(Fault::is_error))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) gateway: ObjectKey,
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// The Envoys' build; empty while none has told.
    pub(crate) build: Arc<str>,
    pub(crate) fleet: FleetId,
    pub(crate) quarantine: Quarantine,
    pub(crate) last_valid: LastValid,
    pub(crate) proof: Proof,
    pub(crate) hold: Hold,
    pub(crate) derived: Derived,
    /// Since when each broken object is.
    pub(crate) since: BTreeMap<ObjectKey, i64>,
    /// Objects whose newest version is not proven yet.
    unpromoted: BTreeSet<ObjectKey>,
    /// Those of them that were edited, or are current again, just now.
    edited: BTreeSet<ObjectKey>,
    /// Objects of which a refusal was counted since they were edited last.
    pub(crate) counted: BTreeSet<ObjectKey>,
    /// By resource: the acknowledged form, then the newer ones.
    forms: BTreeMap<Arc<str>, Vec<Form>>,
    acknowledged: BTreeMap<Arc<str>, Form>,
    /// Connected Envoys, with the number of their streams.
    pub(crate) envoys: BTreeMap<Arc<str>, usize>,
    /// What all its Envoys have, or are to have; none before anything was offered.
    pub(crate) everyone: Option<Snapshot>,
    /// What they should have next.
    pub(crate) wanted: Snapshot,
    pub(crate) stage: Stage,
    pub(crate) readmission: Option<Readmission>,
    pub(crate) trial: Option<TrialRun>,
    /// How often an Envoy was lost on the suspects that are on trial.
    pub(crate) trial_strikes: u32,
    /// Envoys that came with nothing and have taken nothing yet.
    pub(crate) fresh: BTreeSet<Arc<str>>,
    pub(crate) search: Option<Search>,
    pub(crate) attribution: Attribution,
    /// Without the gate: is everything that changed since the last valid configuration held back?
    pub(crate) whole: Whole,
    /// Refused resources that are stored, the oldest first.
    pub(crate) remembered: VecDeque<Version>,
    /// Fallbacks since the last edit.
    pub(crate) rounds: usize,
    /// Refused forms for which somebody was searched since the last edit, without sending them again.
    pub(crate) blamed: BTreeSet<Version>,
    /// Envoys that refuse what others of their build take, with their words.
    pub(crate) alone: BTreeMap<Arc<str>, String>,
    /// What they refused, and what they have meanwhile.
    pub(crate) strays: BTreeMap<Arc<str>, Stray>,
    /// Envoys that have not answered in time, and to nothing since.
    pub(crate) silent: BTreeSet<Arc<str>>,
    /// What all Envoys had before the newest configuration.
    pub(crate) previous: Snapshot,
    /// What is to be stored soon.
    records: Batch,
    /// What is to be stored before anything that rests on it is published.
    convictions: Batch,
    configuration_changed: bool,
}

impl Line {
    /// A line of which nothing is known.
    pub(crate) fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
        Self {
            gateway: gateway.clone(),
            name: gateway.namespaced_name().into(),
            build: build.clone(),
            fleet,
            quarantine: Quarantine::new(),
            last_valid: LastValid::default(),
            proof: Proof::default(),
            hold: Hold::default(),
            derived: Derived::default(),
            since: BTreeMap::new(),
            unpromoted: BTreeSet::new(),
            edited: BTreeSet::new(),
            counted: BTreeSet::new(),
            forms: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            envoys: BTreeMap::new(),
            everyone: None,
            wanted: Snapshot::default(),
            stage: Stage::Settled,
            readmission: None,
            trial: None,
            trial_strikes: 0,
            fresh: BTreeSet::new(),
            search: None,
            attribution: Attribution::default(),
            whole: Whole::default(),
            remembered: VecDeque::new(),
            rounds: 0,
            blamed: BTreeSet::new(),
            alone: BTreeMap::new(),
            strays: BTreeMap::new(),
            silent: BTreeSet::new(),
            previous: Snapshot::default(),
            records: Batch::default(),
            convictions: Batch::default(),
            configuration_changed: false,
        }
    }

    /// Has no Envoy ever been known to it?
    pub(crate) fn is_nobodys(&self) -> bool {
        self.envoys.is_empty() && self.acknowledged.is_empty() && self.hold.has_acknowledged_nothing()
    }

    /// For whom what it learns holds.
    pub(crate) fn scope(&self) -> Scope {
        Scope { gateway: self.name.clone(), build: self.build.clone() }
    }

    /// Routes were translated again: their versions are to be proven.
    pub(crate) fn edited(&mut self, routes: &BTreeSet<ObjectKey>, translator: &Translator) {
        for key in routes {
            self.counted.remove(key);
            match translator.route(key) {
                Some(plan) if plan.gateways().contains(&self.gateway) => {
                    self.unpromoted.insert(key.clone());
                    self.edited.insert(key.clone());
                }
                _ => {
                    self.unpromoted.remove(key);
                }
            }
        }
    }

    /// An object was deleted: nothing of it stays but what was refused.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.since.remove(key);
        self.unpromoted.remove(key);
        self.counted.remove(key);
        if self.last_valid.forget(key) {
            self.record(Change::Forget(key.clone()));
        }
    }

    /// Is the plan about an object that is gone, or that can be read again?
    pub(crate) fn has_outlived(&self, around: &Around<'_>) -> bool {
        let is_gone = |key: &ObjectKey| around.objects.get(key).is_none() && !around.unusable.contains(key);
        let broken = self.derived.broken.iter().any(|(node, why)| {
            let unreadable = why.is_unreadable() && !around.unusable.contains(&node.key);
            unreadable || is_gone(&node.key)
        });
        broken || self.derived.plan.decisions.keys().any(|node| is_gone(&node.key))
    }

    /// Derives the plan anew, and takes what comes of it on its way to the Envoys.
    pub(crate) fn settle(&mut self, around: &mut Around<'_>) {
        self.drop_suspicions(around);
        self.let_go(around);
        self.replan(around);
        let isolate = around.settings.fallback.isolate;
        if !isolate && !self.whole.held && self.hold.has_acknowledged_routes() && self.is_refused_already(around) {
            // What changed was none of what was refused.
            self.whole.held = true;
            self.replan(around);
        }
        if !self.blame_what_is_known(around) {
            self.carry_on(around);
        }
        if self.search.is_none() && self.readmission.is_none() {
            self.attribution.end(around.now_ms);
        }
    }

    fn replan(&mut self, around: &mut Around<'_>) {
        let derived = self.derive(around, &BTreeSet::new(), &BTreeSet::new());
        let now = around.now();
        let mut broken: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        broken.extend(self.held().into_iter().map(|(key, _)| key));
        self.since.retain(|key, _| broken.contains(key));
        for key in broken {
            self.since.entry(key).or_insert(now);
        }
        if derived.overlay != self.derived.overlay {
            self.rounds += 1;
            *around.fallbacks += u64::from(!derived.overlay.is_empty());
        }
        around.translator.lay_over(&self.fleet, derived.overlay.clone());
        // Who is current again may have been acknowledged already, on trial.
        let before = std::mem::replace(&mut self.derived, derived);
        let freed = before.plan.decisions.into_keys().map(|node| node.key);
        self.edited.extend(freed.filter(|key| self.derived.plan.of(key).next().is_none()));
        around.translator.translate(around.objects, around.graph);
    }

    /// Takes what its fleet should have now on its way to the Envoys; what is broken is as it was.
    pub(crate) fn carry_on(&mut self, around: &mut Around<'_>) {
        let Some(mut snapshot) = around.translator.snapshot(&self.fleet).cloned() else { return };
        self.keep_unread_endpoints(&mut snapshot, around);
        self.note_forms(&self.fleet.clone(), &snapshot, around.translator);
        let mut wanted = self.hold.desire(snapshot);
        self.close_in_hold(&mut wanted, around);
        self.close_in_strays(around);
        self.wanted = wanted;
        let edited = std::mem::take(&mut self.edited);
        self.promote(&edited, around);
        self.advance(around);
    }

    /// The plan for what is broken now; contents on trial count as good, and nothing stands in for what is tried apart.
    pub(crate) fn derive(
        &self,
        around: &Around<'_>,
        on_trial: &BTreeSet<Content>,
        apart: &BTreeSet<ObjectKey>,
    ) -> Derived {
        let held;
        let settings = if self.whole.held {
            // Everything that changed goes back to what was last valid, whatever the gates say.
            let mut settings = around.settings.clone();
            settings.fallback.isolate = true;
            settings.fallback.use_last_valid = true;
            settings.fallback.backfill_dependants = false;
            held = settings;
            &held
        } else {
            around.settings
        };
        let world = World {
            gateway: &self.gateway,
            settings,
            objects: around.objects,
            unusable: around.unusable,
            translator: around.translator,
            quarantine: &self.quarantine,
            last_valid: &self.last_valid,
            held: self.whole.held.then_some(&self.unpromoted),
            proof: &self.proof,
            on_trial,
            apart: Some(apart),
            since: &self.since,
            now_ms: around.now_ms,
            candidates: RefCell::default(),
        };
        let mut derived = derive(&world, around.graph);
        checker::enforce(&mut derived, &world);
        derived
    }

    /// Remembers what the route configurations of a snapshot are made of.
    pub(crate) fn note_forms(&mut self, fleet: &FleetId, snapshot: &Snapshot, translator: &Translator) {
        for (name, resource) in snapshot.of(ResourceType::Route) {
            let forms = self.forms.entry(name.clone()).or_default();
            if forms.iter().any(|form| form.version == resource.version) {
                continue;
            }
            let Some((composition, context)) = translator.composition(fleet, name) else { continue };
            forms.push(Form { version: resource.version, composition: composition.clone(), context });
            if forms.len() > FORMS_MAX {
                forms.remove(0);
            }
        }
    }

    /// What a version of a route configuration was made of.
    pub(crate) fn form(&self, name: &str, version: &Version) -> Option<&Form> {
        self.forms.get(name)?.iter().rev().find(|form| form.version == *version)
    }

    /// What the acknowledged form of a route configuration is made of.
    pub(crate) fn acknowledged(&self, name: &str) -> Option<&Form> {
        self.acknowledged.get(name)
    }

    /// An Envoy acknowledged a route configuration: its parts are proven.
    ///
    /// Gives back the objects that had parts among what changed.
    pub(crate) fn prove(&mut self, name: &Arc<str>, version: Version) -> BTreeSet<ObjectKey> {
        self.configuration_changed = true;
        let mut keys = BTreeSet::new();
        let Some(form) = self.form(name, &version).cloned() else { return keys };
        let before = self.acknowledged.get(name).map(|form| form.composition.clone()).unwrap_or_default();
        let changed = before.diff(&form.composition).filter_map(|item| match item {
            imbl::ordmap::DiffItem::Add(_, parts) | imbl::ordmap::DiffItem::Update { new: (_, parts), .. } => {
                Some(parts.clone())
            }
            imbl::ordmap::DiffItem::Remove(..) => None,
        });
        for parts in changed.collect::<Vec<_>>() {
            for (content, rendered) in parts.iter() {
                self.proof.prove(*content);
                if self.unpromoted.contains(&rendered.route.key) {
                    keys.insert(rendered.route.key.clone());
                }
            }
        }
        if let Some(forms) = self.forms.get_mut(name)
            && let Some(at) = forms.iter().position(|form| form.version == version)
        {
            forms.drain(..at);
        }
        self.acknowledged.insert(name.clone(), form);
        self.proof.shrink(self.acknowledged.values().map(|form| &form.composition));
        keys
    }

    /// Those of these objects whose every part was acknowledged become last valid in the version of now.
    pub(crate) fn promote(&mut self, keys: &BTreeSet<ObjectKey>, around: &Around<'_>) {
        let waiting: Vec<ObjectKey> = keys.iter().filter(|key| self.unpromoted.contains(*key)).cloned().collect();
        for key in waiting {
            if !self.is_proven(&key, around) {
                continue;
            }
            self.unpromoted.remove(&key);
            let plan = around.translator.route(&key).cloned();
            let services = plan.iter().flat_map(|plan| plan.backends.iter().map(|backend| &backend.service.key));
            let services: BTreeSet<ObjectKey> = services.cloned().collect();
            for key in services.iter().chain([&key]) {
                self.promote_one(key, around);
            }
        }
    }

    /// A version of an object is proven good, where it could be read as a whole.
    pub(crate) fn promote_one(&mut self, key: &ObjectKey, around: &Around<'_>) {
        let now = around.now();
        if around.is_whole(key)
            && let Some(object) = around.objects.get(key)
            && self.last_valid.promote(object, now)
            && let Some(stored) = crate::apis::document::stored(object, now)
        {
            self.record(Change::Promote(self.scope(), stored));
        }
    }

    /// Its listeners were acknowledged: the Gateway and its class are good as they are, where nothing is wrong with them.
    ///
    /// They are never backfilled; this is for a start at which they cannot be read.
    pub(crate) fn promote_anchors(&mut self, around: &Around<'_>) {
        let pending = |(name, _): (&Arc<str>, _)| {
            self.hold.standing(ResourceType::Listener, name) != Some(Standing::Acknowledged)
        };
        let plan = around.translator.gateway(&self.gateway);
        let wrong = plan.is_none_or(|plan| plan.faults.iter().any(crate::fault::Fault::is_error));
        if wrong || self.wanted.of(ResourceType::Listener).iter().any(pending) {
            return;
        }
        let class = around.objects.get(&self.gateway).and_then(|object| match &object.body {
            crate::apis::Body::Gateway(gateway) => Some(class_key(&gateway.class)),
            _ => None,
        });
        for key in class.iter().chain([&self.gateway.clone()]) {
            self.promote_one(key, around);
        }
    }

    /// Was everything that the object's newest version makes acknowledged, and is it served whole and without a fault?
    fn is_proven(&self, key: &ObjectKey, around: &Around<'_>) -> bool {
        let Some(plan) = around.translator.route(key) else { return false };
        let current = self.derived.plan.of(key).next().is_none();
        let whole = around.is_whole(key) && plan.replaced.is_empty();
        if !current || !whole || plan.faults.iter().any(Fault::is_error) {
            return false;
        }
        let contents = around.translator.contents(&self.gateway, plan);
        let remotes = plan.remotes();
        let mut names = plan.backends.iter().map(names::cluster).chain(remotes.iter().map(names::remote));
        let acknowledged = |kind, name: &str| self.hold.standing(kind, name) == Some(Standing::Acknowledged);
        let clusters = names.all(|name| acknowledged(ResourceType::Cluster, &name));
        // Filters that its routes ask for stand in listeners.
        let listeners = plan.routes.iter().all(|rendered| rendered.route.guards.is_empty())
            || self.wanted.of(ResourceType::Listener).keys().all(|name| acknowledged(ResourceType::Listener, name));
        !contents.is_empty()
            && clusters
            && listeners
            && contents.iter().all(|(content, _)| self.proof.is_proven(content))
    }

    /// Something is to be stored.
    pub(crate) fn record(&mut self, change: Change) {
        match change {
            Change::Convict(..) => self.convictions.push(change),
            _ => self.records.push(change),
        }
    }

    /// Verdicts that are to be stored since this was last asked.
    pub(crate) fn take_convictions(&mut self) -> Batch {
        std::mem::take(&mut self.convictions)
    }

    /// What else is to be stored since this was last asked; the whole configuration where it was acknowledged anew.
    pub(crate) fn take_records(&mut self) -> Batch {
        let mut records = std::mem::take(&mut self.records);
        if std::mem::take(&mut self.configuration_changed) && !self.build.is_empty() {
            let snapshot = self.hold.acknowledged_snapshot();
            let resources = ResourceType::ALL.into_iter().flat_map(|kind| {
                snapshot.of(kind).values().map(move |resource| StoredResource {
                    type_url: kind.url().into(),
                    name: resource.name.clone(),
                    version: *resource.version.as_bytes(),
                    sensitive: kind == ResourceType::Secret,
                    origins: resource.origins.iter().take(STORED_ORIGINS_MAX).cloned().collect(),
                    body: resource.body.clone(),
                })
            });
            records.push(Change::Acknowledge(self.scope(), resources.collect()));
        }
        records
    }

    /// Clusters were acknowledged: objects may have waited for them.
    pub(crate) fn promote_waiting(&mut self, around: &Around<'_>) {
        let waiting = self.unpromoted.clone();
        self.promote(&waiting, around);
    }

    /// Something else than a route configuration was acknowledged.
    pub(crate) fn note_acknowledged(&mut self) {
        self.configuration_changed = true;
    }
}
