//! Events for Kubernetes and for the log, as a pure function of two successive reports.
//!
//! Each change produces one event. Delivery is implemented elsewhere; see `EventRecorder`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use holdfast_fallback::view::{BackfilledObject, BrokenObject, Deviations, FallbackReport, GatewayState, Identity};
use holdfast_graph::{Detected, ObjectKey, Step};

/// The reason of an event, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A desired object has a fault of its own.
    ConfigurationTranslationFailed,
    /// The stand-in version of a broken object has a fault of its own.
    FallbackConfigurationTranslationFailed,
    /// A desired object was refused.
    ConfigurationApplyFailed,
    /// An object was refused while a fallback was in force.
    FallbackConfigurationApplyFailed,
    /// The last valid version of an object is served.
    Backfilled,
    /// A direct response replaces an object, or a part of it.
    Replaced,
    /// An object, or a part of it, is left out.
    Excluded,
    /// An object is current again.
    Recovered,
    /// The Envoys of a Gateway have acknowledged all desired resources.
    ConfigurationSucceeded,
    /// The Envoys of a Gateway have acknowledged a fallback.
    FallbackConfigurationSucceeded,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 10] = [
        Reason::ConfigurationTranslationFailed,
        Reason::FallbackConfigurationTranslationFailed,
        Reason::ConfigurationApplyFailed,
        Reason::FallbackConfigurationApplyFailed,
        Reason::Backfilled,
        Reason::Replaced,
        Reason::Excluded,
        Reason::Recovered,
        Reason::ConfigurationSucceeded,
        Reason::FallbackConfigurationSucceeded,
    ];

    /// Checks whether the Event is of type `Warning`. All others are `Normal`.
    pub fn is_warning(self) -> bool {
        !matches!(self, Reason::Recovered | Reason::ConfigurationSucceeded | Reason::FallbackConfigurationSucceeded)
    }
}

/// The form in an Event.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Regarding {
    /// The controller: its Pod, if it has one.
    Controller,
    /// An object.
    Object(Identity),
    /// An object that has been deleted: for the log only.
    Deleted(Identity),
}

/// A change that is reported once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FallbackEvent {
    /// The reason.
    pub reason: Reason,
    /// The subject.
    pub regarding: Regarding,
    /// The message, as a sentence. Text from Envoy in it is scrubbed.
    pub note: String,
}

/// Returns the events of the change from `before` to `now`; `exists` checks whether an object exists.
pub fn events(
    before: &FallbackReport,
    now: &FallbackReport,
    exists: impl Fn(&ObjectKey) -> bool,
) -> Vec<FallbackEvent> {
    let mut events = Vec::new();
    broken(before, now, &mut events);
    untranslated(before, now, &mut events);
    steps(before, now, &mut events);
    recovered(before, now, exists, &mut events);
    gateways(before, now, &mut events);
    events
}

fn add(events: &mut Vec<FallbackEvent>, reason: Reason, object: &Identity, note: String) {
    events.push(FallbackEvent { reason, regarding: Regarding::Object(object.clone()), note });
}

/// Adds an event for the controller and for the Gateway, because the owner of the Gateway may have no access to the
/// controller's namespace.
fn add_gateway_event(events: &mut Vec<FallbackEvent>, reason: Reason, gateway: Option<&Identity>, note: String) {
    events.push(FallbackEvent { reason, regarding: Regarding::Controller, note: note.clone() });
    if let Some(gateway) = gateway {
        add(events, reason, gateway, note);
    }
}

/// Adds events for objects that are newly at fault, at fault in another generation, or at fault by a firmer finding;
/// and for their Gateways.
fn broken(before: &FallbackReport, now: &FallbackReport, events: &mut Vec<FallbackEvent>) {
    let known: BTreeMap<&Identity, &BrokenObject> =
        before.broken_objects.iter().map(|broken| (&broken.object, broken)).collect();
    let was_in_fallback = |name: &str| before.gateway(name).is_some_and(|gateway| !gateway.deviations.is_empty());
    let reason = |fallback: bool| match fallback {
        true => Reason::FallbackConfigurationApplyFailed,
        false => Reason::ConfigurationApplyFailed,
    };
    let mut refusing: BTreeMap<&Arc<str>, Vec<&BrokenObject>> = BTreeMap::new();
    for broken in &now.broken_objects {
        let known = known.get(&broken.object).filter(|known| known.generation == broken.generation);
        let same =
            |known: &&&BrokenObject| (known.detected_by, &known.message) == (broken.detected_by, &broken.message);
        if broken.detected_by == Detected::Translation {
            if known.filter(same).is_none() {
                add(events, Reason::ConfigurationTranslationFailed, &broken.object, because(broken));
            }
            continue;
        }
        let is_new = known.is_none_or(|known| known.detected_by == Detected::Translation);
        for gateway in broken.gateways.iter().filter(|_| is_new) {
            refusing.entry(gateway).or_default().push(broken);
        }
        // A suspicion is not a verdict: its object gets an event when there is a verdict.
        if broken.detected_by != Detected::Suspected && known.filter(same).is_none() {
            let fallback = is_new && broken.gateways.iter().all(|gateway| was_in_fallback(gateway));
            let gateways = broken.gateways.iter().map(|gateway| &**gateway).collect::<Vec<_>>().join(", ");
            let refuser = if broken.detected_by == Detected::Probe { "the probe" } else { "Envoy" };
            let note = format!("{refuser} refused this object at {gateways}: {}", because(broken));
            add(events, reason(fallback), &broken.object, note);
        }
    }
    for (gateway, refused) in refusing {
        let fallback = was_in_fallback(gateway);
        let what = if fallback { "fallback configuration" } else { "configuration" };
        let Some(first) = refused.first() else { continue };
        let suspected = refused.iter().filter(|broken| broken.detected_by == Detected::Suspected).count();
        let count = match (refused.len(), suspected) {
            (count, 0) => format!("{count} refused"),
            (count, suspected) => format!("{} refused, {suspected} suspected", count - suspected),
        };
        let note = format!("failed to apply {what} to {gateway}: {count}; {}: {}", first.object.key(), because(first));
        // If the Gateway itself was refused, it has its event already.
        let object = now.gateway(gateway).and_then(|gateway| gateway.object.as_ref());
        let of_gateway = object.filter(|object| refused.iter().all(|broken| broken.object != **object));
        add_gateway_event(events, reason(fallback), of_gateway, note);
    }
}

/// Adds events for stand-in versions that cannot be served as a whole.
fn untranslated(before: &FallbackReport, now: &FallbackReport, events: &mut Vec<FallbackEvent>) {
    for gateway in &now.gateways {
        let known = before.gateway(&gateway.name).map(|known| &known.untranslated);
        for (object, message) in &gateway.untranslated {
            if known.and_then(|known| known.get(object)) != Some(message) {
                let note = format!("its stand-in version at {} is not served completely: {message}", gateway.name);
                add(events, Reason::FallbackConfigurationTranslationFailed, object, note);
            }
        }
    }
}

/// Adds events for objects that entered a step, or are in a step in another form.
fn steps(before: &FallbackReport, now: &FallbackReport, events: &mut Vec<FallbackEvent>) {
    let (known, forms) = (forms(before), forms(now));
    for ((object, step), form) in &forms {
        if known.get(&(*object, *step)) == Some(form) {
            continue;
        }
        let why = why(now, object);
        let reason = match step {
            Step::Backfilled => Reason::Backfilled,
            Step::Replaced => Reason::Replaced,
            Step::Excluded | Step::Current => Reason::Excluded,
        };
        let form = form.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        add(events, reason, object, format!("{form}; {why}"));
    }
}

/// Returns the description of what is served instead of each object.
fn forms(report: &FallbackReport) -> BTreeMap<(&Identity, Step), BTreeSet<String>> {
    let mut forms: BTreeMap<(&Identity, Step), BTreeSet<String>> = BTreeMap::new();
    for backfilled in &report.backfilled_objects {
        forms.entry((&backfilled.object, Step::Backfilled)).or_default().insert(serving(backfilled));
    }
    for replaced in report.replaced_by_steps() {
        let section = if replaced.section.is_empty() { "it" } else { &*replaced.section };
        let description = format!("{section} answers {}", replaced.response);
        forms.entry((&replaced.object, Step::Replaced)).or_default().insert(description);
    }
    for excluded in report.excluded_by_steps() {
        forms.entry((&excluded.object, Step::Excluded)).or_default().insert(left_out(&excluded.section));
    }
    forms
}

/// Returns `left out`, with the section of the object.
pub fn left_out(section: &str) -> String {
    match section {
        "" => "left out".to_owned(),
        // A single hostname has an index. With any, a route is below no HTTPRoute.
        "hostnames" => "not served below HTTPRoutes".to_owned(),
        _ => format!("{section} left out"),
    }
}

/// Returns `serving generation 4 (last valid, since …)`.
pub fn serving(backfilled: &BackfilledObject) -> String {
    let (generation, since) = (backfilled.served_generation, backfilled.served_since);
    let desired: Vec<&str> = backfilled.desired_sections.iter().map(|section| &**section).collect();
    let except = match desired.is_empty() {
        true => String::new(),
        false => format!(", except for the desired {}, which that generation has no backend for", desired.join(", ")),
    };
    match &*backfilled.section {
        "" => format!("serving generation {generation} (last valid, since {since}){except}"),
        section => format!("serving {section} as in generation {generation} (last valid, since {since})"),
    }
}

/// Returns the cause of the step of an object, as a sentence.
pub fn why(report: &FallbackReport, object: &Identity) -> String {
    let own = report.broken_objects.iter().find(|broken| broken.object == *object);
    if let Some(broken) = own {
        let refused = if broken.detected_by == Detected::Suspected { "may have been refused" } else { "was refused" };
        return match broken.generation {
            Some(generation) => {
                format!("generation {generation} {refused}: {}{}", because(broken), not_instead(broken))
            }
            None => format!("{}{}", because(broken), not_instead(broken)),
        };
    }
    let causes = causes(report, object);
    let describe = |cause: &String| {
        let broken = report.broken_objects.iter().find(|broken| broken.object.key().to_string() == *cause);
        broken.map_or_else(|| cause.clone(), |broken| format!("{cause}: {}{}", because(broken), not_instead(broken)))
    };
    let first = causes.first().map(|cause| describe(cause)).unwrap_or_default();
    match causes.len() {
        0 | 1 => format!("because of {first}"),
        count => format!("because of {first}, and {} more", count - 1),
    }
}

/// Returns the broken objects that cause the steps of an object.
fn causes<'a>(report: &'a FallbackReport, object: &Identity) -> BTreeSet<&'a String> {
    let backfilled = report.backfilled_objects.iter().map(|entry| (&entry.object, &entry.causing_objects));
    let replaced = report.replaced_by_steps().map(|entry| (&entry.object, &entry.causing_objects));
    let excluded = report.excluded_by_steps().map(|entry| (&entry.object, &entry.causing_objects));
    let all = backfilled.chain(replaced).chain(excluded);
    all.filter(|(other, _)| *other == object).flat_map(|(_, causes)| causes).collect()
}

/// Returns the reason why the last valid version of an object is not served, as the end of a sentence; empty without
/// one.
fn not_instead(broken: &BrokenObject) -> String {
    broken.not_backfilled.as_ref().map(|why| format!("; {why}")).unwrap_or_default()
}

/// Adds to a message about an object why its last valid version is not served.
pub fn explained(report: &FallbackReport, key: &ObjectKey, message: &str) -> String {
    match why_not_backfilled(report, key) {
        Some(why) => format!("{message}; {why}"),
        None => message.to_owned(),
    }
}

/// Returns the reason why the last valid version of an object, or of a cause of its step, is not served.
fn why_not_backfilled<'a>(report: &'a FallbackReport, key: &ObjectKey) -> Option<&'a str> {
    let of = |is: &dyn Fn(&BrokenObject) -> bool| {
        report.broken_objects.iter().filter(|broken| is(broken)).find_map(|broken| broken.not_backfilled.as_deref())
    };
    let replaced = report.replaced_by_steps().map(|entry| (&entry.object, &entry.causing_objects));
    let excluded = report.excluded_by_steps().map(|entry| (&entry.object, &entry.causing_objects));
    let own = replaced.chain(excluded).filter(|(object, _)| object.is(key));
    let causes: BTreeSet<&String> = own.flat_map(|(_, causes)| causes).collect();
    of(&|broken| broken.object.is(key)).or_else(|| of(&|broken| causes.contains(&broken.object.key().to_string())))
}

/// Returns `field: message`.
pub fn because(broken: &BrokenObject) -> String {
    if broken.field.is_empty() { broken.message.clone() } else { format!("{}: {}", broken.field, broken.message) }
}

/// Adds events for objects that were at fault or in a step, and no longer are.
fn recovered(
    before: &FallbackReport,
    now: &FallbackReport,
    exists: impl Fn(&ObjectKey) -> bool,
    events: &mut Vec<FallbackEvent>,
) {
    let (left, still) = (before.concerned(), now.concerned());
    let still: BTreeSet<ObjectKey> = still.into_iter().map(Identity::key).collect();
    for object in left.into_iter().filter(|object| !still.contains(&object.key())) {
        let (regarding, note) = match exists(&object.key()) {
            true => (Regarding::Object(object.clone()), "the object is served as desired again".to_owned()),
            false => (Regarding::Deleted(object.clone()), "the object is deleted, and its faults with it".to_owned()),
        };
        events.push(FallbackEvent { reason: Reason::Recovered, regarding, note });
    }
}

/// Returns the acknowledged deviations of a Gateway as far as they are reported: none is no success while a listener of
/// the Gateway refuses connections.
fn reportable(state: &GatewayState) -> Option<&Deviations> {
    state.acknowledged.as_ref().filter(|all| !all.is_empty() || state.unserved_listeners.is_empty())
}

/// Adds events for Gateways with Envoys that have acknowledged another state than before.
fn gateways(before: &FallbackReport, now: &FallbackReport, events: &mut Vec<FallbackEvent>) {
    for state in &now.gateways {
        let GatewayState { name, object, .. } = state;
        let last = before.gateway(name);
        let known = last.and_then(reportable);
        let Some(acknowledged) = reportable(state).filter(|acknowledged| known != Some(acknowledged)) else {
            continue;
        };
        let was_closed = last.is_some_and(|last| !last.unserved_listeners.is_empty());
        let (reason, note) = if acknowledged.is_empty() {
            (Reason::ConfigurationSucceeded, format!("successfully applied configuration to {name}"))
        } else {
            let [backfilled, replaced, excluded] =
                [Step::Backfilled, Step::Replaced, Step::Excluded].map(|step| acknowledged.objects(step));
            let held = if acknowledged.held { "; the last acknowledged configuration is held" } else { "" };
            let note = format!(
                "successfully applied fallback configuration to {name}: {} broken, {backfilled} backfilled, {replaced} \
                 replaced, {excluded} excluded{held}",
                acknowledged.broken.len()
            );
            (Reason::FallbackConfigurationSucceeded, note)
        };
        // A successful configuration is reported on a Gateway only if it was not successful before.
        let deviates = !acknowledged.is_empty() || known.is_some_and(|known| !known.is_empty()) || was_closed;
        let of_gateway = object.as_ref().filter(|_| deviates);
        add_gateway_event(events, reason, of_gateway, note);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
