//! Health from facts: which finding explains each effect on clients, its severity, and which findings share one cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::ledger::Present;
use holdfast_api::section::{self, ObjectSection, unit};
use holdfast_check::certificate::DateFault;
use holdfast_check::time::Moment;
use holdfast_fallback::view::Identity;
use holdfast_graph::ObjectKey;

use super::facts::{Effect, Facts, ObjectProblem, Outside};
use super::inputs::inputs;
use super::view::{
    DetectedBy, Gets, Health, HealthFinding, InputProblem, ManifestPosition, ObjectAtFault, ServedInstead, Severity,
};
use super::{causes, gateways, next};

/// The reason of an effect on clients that no finding explains.
const CLOSED: &str = "Closed";

/// Computes health.
pub fn judge(facts: &Facts) -> Health {
    let Facts { found, effects, gateways: served_by, outside } = facts;
    let mut cases = explain(found, effects);
    let closed = closed_hosts(effects);
    for case in &mut cases {
        case.is_hidden = case.effects.is_empty() && closed.contains(&case.found.object.key());
        case.part();
    }
    let mut health = Health { inputs: inputs(&outside.input), ..Health::default() };
    if let Some(why) = &outside.store {
        let message = format!("{why}; last valid versions and records of refused content are lost when Holdfast ends");
        let (of, reason, next) = ("the store".into(), "NotStored".to_owned(), "/debug/store".to_owned());
        health.inputs.problems.push(InputProblem { of, reason, message, since: None, next });
    }
    if let Some(why) = &outside.unreachable {
        let message = format!("{why}; no Envoy can connect, and connected Envoys keep their configuration");
        let (of, reason) = ("the xDS server".into(), "NotListening".to_owned());
        let next = "make the path of the socket usable, or restart Holdfast with another --data-dir or --xds-listen"
            .to_owned();
        health.inputs.problems.push(InputProblem { of, reason, message, since: None, next });
    }
    health.gateways = served_by.iter().map(|gateway| gateways::shown(gateway, outside)).collect();
    let mut all: BTreeMap<Severity, Vec<HealthFinding>> = BTreeMap::new();
    for (severity, cases) in grouped(cases) {
        all.entry(severity).or_default().push(finding(cases, outside));
    }
    for gateway in served_by {
        for (severity, finding) in gateways::findings(gateway, outside) {
            all.entry(severity).or_default().push(finding);
        }
    }
    let mut of = |severity| {
        let mut findings = all.remove(&severity).unwrap_or_default();
        findings.sort_by(|a, b| a.objects.cmp(&b.objects).then_with(|| a.message.cmp(&b.message)));
        findings
    };
    (health.outages, health.degraded, health.warnings) =
        (of(Severity::Outage), of(Severity::Degraded), of(Severity::Warning));
    health.judged()
}

/// Returns the findings that the ledger has to date.
pub fn present(facts: &Facts) -> Vec<Present> {
    let of = |found: &ObjectProblem| Present {
        id: id(found),
        uid: found.object.id.to_string(),
        generation: found.generation,
        since: found.since,
        refused: matches!(found.detected, DetectedBy::Nack | DetectedBy::Probe | DetectedBy::Suspected),
    };
    facts.found.iter().map(of).collect()
}

/// Returns the identifier of a finding in the ledger: the object, the part of it at fault, and the sort of the fault. A
/// certificate that expires, and a Secret that is deleted later, are two faults of one field.
fn id(found: &ObjectProblem) -> String {
    let sort = match found.class {
        Class::Ignored => "warning",
        Class::Referential => "reference",
        Class::Invalid | Class::Conflict => "error",
    };
    format!("{} {} {sort}", found.object.key(), unit(&found.field))
}

/// A problem with the effects that it explains.
struct ProblemWithEffects {
    found: ObjectProblem,
    /// Problems of other objects that follow from the problem.
    consequences: Vec<ObjectProblem>,
    effects: Vec<Effect>,
    /// Whether another problem closes the host of the object, so that no client meets this one.
    is_hidden: bool,
}

impl ProblemWithEffects {
    fn new(found: ObjectProblem) -> Self {
        Self { found, consequences: Vec::new(), effects: Vec::new(), is_hidden: false }
    }

    fn severity(&self) -> Severity {
        // Without a Gateway, no client gets the certificate.
        let mut followers = self.consequences.iter().peekable();
        let is_somewhere = followers.peek().is_none() || followers.any(|one| !one.gateways.is_empty());
        if self.is_hidden || (self.effects.is_empty() && is_outdated(&self.found) && !is_somewhere) {
            return Severity::Warning;
        }
        let by_clients = self.effects.iter().map(|effect| effect.gets.severity()).min();
        let by_problems = || std::iter::once(&self.found).chain(&self.consequences).map(severity).min();
        by_clients.or_else(by_problems).unwrap_or(Severity::Warning)
    }

    /// Adds the effect on an object that is served except for the field.
    fn part(&mut self) {
        if self.is_hidden {
            return;
        }
        if self.effects.is_empty() && is_outdated(&self.found) {
            let untrusted = |one: &ObjectProblem| Effect { gets: Gets::Untrusted, ..Effect::left_out(&one.object, "") };
            self.effects = self.consequences.iter().filter(|one| !one.gateways.is_empty()).map(untrusted).collect();
        }
        let ObjectProblem { object, field, class, is_served, is_unreadable, .. } = &self.found;
        let section = section::of_field(field);
        let is_error = *class != Class::Ignored;
        if is_error && self.effects.is_empty() && *is_served && *is_unreadable {
            self.effects.push(Effect { gets: Gets::ReadLast, ..Effect::left_out(object, "") });
            return;
        }
        if is_error
            && self.effects.is_empty()
            && *is_served
            && !section.is_empty()
            && (self.severity() == Severity::Outage || self.found.reason == HOSTNAME_CONFLICT)
        {
            self.effects.push(Effect::left_out(object, section));
        }
    }
}

/// Returns the objects of which each request to the host gets the same error.
fn closed_hosts(effects: &[Effect]) -> BTreeSet<ObjectKey> {
    let is_closed = |effect: &&Effect| *effect.section == *section::HOST && matches!(effect.gets, Gets::Status { .. });
    effects.iter().filter(is_closed).map(|effect| effect.object.key()).collect()
}

/// The reason of a conflict with an object of another kind about a host.
const HOSTNAME_CONFLICT: &str = "HostnameConflict";

/// Returns whether a problem is a certificate, or certificate authorities, that are not valid now.
fn is_outdated(found: &ObjectProblem) -> bool {
    let [not_yet_valid, expired, _] = DateFault::REASONS;
    [not_yet_valid, expired].contains(&&*found.reason)
}

/// Returns the severity of a problem without a known effect on clients.
fn severity(found: &ObjectProblem) -> Severity {
    let ObjectProblem { class, detected, used, is_served, .. } = found;
    // The routes of the other kind do not answer the requests: a GRPCRoute has no answer for those of an HTTPRoute.
    if found.reason == HOSTNAME_CONFLICT && *used {
        return if *is_served { Severity::Degraded } else { Severity::Outage };
    }
    // A host without a place at any listener.
    if *class == Class::Conflict && &*found.object.kind == kinds::HTTP_PROXY && *used && !is_served {
        return Severity::Outage;
    }
    // No connection passes a verification with a certificate, or with authorities, that are not valid now.
    if *used && is_outdated(found) {
        return Severity::Outage;
    }
    match (class, detected) {
        (Class::Ignored | Class::Conflict, _) => Severity::Warning,
        (_, DetectedBy::Nack | DetectedBy::Probe | DetectedBy::Suspected | DetectedBy::Envoys) => Severity::Degraded,
        (Class::Invalid | Class::Referential, _) if *used => Severity::Outage,
        (Class::Invalid | Class::Referential, _) => Severity::Warning,
    }
}

/// Returns the problems that are causes, each with its consequences and effects. An effect without an explanation
/// becomes a problem of its own: effects on clients are always reported.
fn explain(found: &[ObjectProblem], effects: &[Effect]) -> Vec<ProblemWithEffects> {
    let roots = causes::roots(found);
    let mut cases: Vec<ProblemWithEffects> = found.iter().cloned().map(ProblemWithEffects::new).collect();
    let mut of: BTreeMap<ObjectKey, Vec<usize>> = BTreeMap::new();
    for (index, problem) in found.iter().enumerate() {
        of.entry(problem.object.key()).or_default().push(index);
        for root in roots.get(index).into_iter().flatten().filter(|root| **root != index) {
            if let Some(case) = cases.get_mut(*root) {
                case.consequences.push(problem.clone());
            }
        }
    }
    let mut unknown = Vec::new();
    for effect in effects {
        let behind = reasons(effect, &of, found);
        let behind: BTreeSet<usize> = behind.iter().filter_map(|index| roots.get(*index)).flatten().copied().collect();
        if behind.is_empty() {
            unknown.push(ProblemWithEffects {
                effects: vec![effect.clone()],
                ..ProblemWithEffects::new(unexplained(effect))
            });
        }
        for index in behind {
            if let Some(case) = cases.get_mut(index) {
                case.effects.push(effect.clone());
            }
        }
    }
    let causes = cases.into_iter().zip(&roots).enumerate().filter(|(index, (_, roots))| roots.contains(index));
    causes.map(|(_, (case, _))| case).chain(unknown).collect()
}

fn reasons(effect: &Effect, of: &BTreeMap<ObjectKey, Vec<usize>>, all: &[ObjectProblem]) -> Vec<usize> {
    let own = effect.object.key();
    let found = |index: &usize| all.get(*index);
    let is_error = |index: &usize| found(index).is_some_and(|found| found.class != Class::Ignored);
    let errors = |key: &ObjectKey| of.get(key).into_iter().flatten().copied().filter(is_error).collect::<Vec<_>>();
    let at = |index: &usize| match found(index) {
        Some(found) if !found.is_unreadable => unit(&found.field),
        _ => "",
    };
    let causing = &*effect.causing_section;
    // A listener is closed by the validation of client certificates that its Gateway requires.
    let is_gateway_tls = |index: &usize, section: &str| {
        at(index) == section::GATEWAY_TLS && matches!(ObjectSection::parse(section), ObjectSection::Listener(_))
    };
    let causes = |index: &usize| {
        causing.is_empty() || at(index).is_empty() || at(index) == causing || is_gateway_tls(index, causing)
    };
    let others = effect.causes.iter().filter(|cause| **cause != own).flat_map(errors);
    let mut others: Vec<usize> = others.filter(causes).collect();
    // A problem of the causing part itself precedes problems of the object as a whole.
    let is_of_part = |index: &usize| !causing.is_empty() && at(index) == causing;
    if others.iter().any(is_of_part) {
        others.retain(is_of_part);
    }
    let is_own = effect.causes.is_empty() || effect.causes.contains(&own);
    // A refused listener is at fault under its name, and has its effect at its position.
    // Connections to a host are forwarded by its `tcpproxy`.
    let is_stream = |index: &usize| &*effect.section == section::HOST && at(index) == section::STREAM;
    let is_there = |index: &usize| {
        at(index) == &*effect.section
            || (!causing.is_empty() && at(index) == causing)
            || is_stream(index)
            || is_gateway_tls(index, &effect.section)
    };
    let overlaps = |index: &usize| effect.section.is_empty() || at(index).is_empty() || is_there(index);
    let mentions = |found: &ObjectProblem| !found.message.is_empty() && effect.message.contains(&found.message);
    let is_mentioned = |index: &usize| found(index).is_some_and(mentions);
    let is_about_dates = |index: &usize| found(index).is_some_and(is_outdated);
    let mut here: Vec<usize> = if is_own || others.is_empty() { errors(&own) } else { Vec::new() };
    if effect.version.is_some() {
        // Problems are about the desired version, in which the section can be another part.
        here.retain(is_mentioned);
    } else {
        here.retain(overlaps);
        if !effect.section.is_empty() && here.iter().any(is_there) {
            here.retain(is_there);
        }
    }
    if others.is_empty() && !here.iter().any(is_mentioned) {
        // A rule without backends, or with weights of 0 only, has a warning about that.
        let warnings: Vec<usize> = of.get(&own).into_iter().flatten().copied().filter(is_mentioned).collect();
        here = if warnings.is_empty() { here } else { warnings };
    }
    // An older object gets the requests of a match that both have, and this object nothing.
    let is_conflict = |index: &usize| found(index).is_some_and(|found| found.class == Class::Conflict);
    if !here.iter().all(is_conflict) {
        here.retain(|index| !is_conflict(index));
    }
    // A certificate that is not valid now closes nothing.
    if !matches!(effect.gets, Gets::Untrusted | Gets::UntrustedWithoutEcdsa) && !here.iter().all(is_about_dates) {
        here.retain(|index| !is_about_dates(index));
    }
    here.extend(others);
    here.sort_unstable();
    here.dedup();
    here
}

fn unexplained(effect: &Effect) -> ObjectProblem {
    let section = section::field(&effect.section);
    // The message may begin with a field of the section.
    let is_field = |text: &&str| {
        let below = text.strip_prefix(&*section);
        !section.is_empty() && !text.contains(' ') && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let begins = effect.message.split_once(": ").filter(|(field, _)| is_field(field));
    let (field, message) = begins.unwrap_or((&section, &effect.message));
    ObjectProblem {
        object: effect.object.clone(),
        generation: effect.version,
        message: match effect.version {
            Some(generation) => {
                format!("{message} (in generation {generation}, the last valid version, which is served)")
            }
            None => message.to_owned(),
        },
        field: field.to_owned(),
        class: Class::Invalid,
        reason: CLOSED.to_owned(),
        detected: DetectedBy::Translation,
        gateways: BTreeSet::from([effect.gateway.clone()]),
        since: None,
        used: true,
        is_served: true,
        is_unreadable: false,
        cause: None,
        not_backfilled: None,
    }
}

/// Groups cases with the same cause, by severity.
fn grouped(cases: Vec<ProblemWithEffects>) -> Vec<(Severity, Vec<ProblemWithEffects>)> {
    let mut groups: BTreeMap<(Severity, String, DetectedBy, String), Vec<ProblemWithEffects>> = BTreeMap::new();
    for case in cases {
        let ObjectProblem { reason, detected, message, .. } = &case.found;
        let cause = (case.severity(), reason.clone(), *detected, message.clone());
        groups.entry(cause).or_default().push(case);
    }
    groups.into_iter().map(|((severity, ..), cases)| (severity, cases)).collect()
}

/// Returns the finding of one cause. `cases` must not be empty.
fn finding(mut cases: Vec<ProblemWithEffects>, outside: &Outside) -> HealthFinding {
    let place = |case: &ProblemWithEffects| (case.found.object.clone(), case.found.field.clone());
    cases.sort_by_cached_key(place);
    let mut finding = HealthFinding {
        reason: String::new(),
        message: String::new(),
        detected_by: DetectedBy::Translation,
        objects: Vec::new(),
        served: Vec::new(),
        affected: BTreeSet::new(),
        gateways: BTreeSet::new(),
        since: None,
        next: String::new(),
    };
    for ProblemWithEffects { found, consequences, effects, .. } in cases {
        let place = outside.places.get(&found.object.key());
        let place = place.map(|place| ManifestPosition { file: place.file.clone(), line: place.line, column: None });
        if finding.objects.is_empty() {
            finding.next = next::next(&found, place.as_ref(), outside.input.kubernetes);
        }
        let is_gateway = &*found.object.kind == kinds::GATEWAY;
        let own_gateway: Option<Arc<str>> = is_gateway.then(|| found.object.key().namespaced_name().into());
        // The ledger dates parts of objects.
        let since = outside.ledger.since(&id(&found)).or(found.since);
        finding.objects.push(ObjectAtFault {
            object: found.object,
            generation: found.generation,
            field: found.field,
            place,
            since,
            not_backfilled: found.not_backfilled,
        });
        finding.gateways.extend(found.gateways);
        let is_of_gateway = own_gateway.is_some();
        finding.gateways.extend(own_gateway);
        for consequence in consequences {
            // A route of a Gateway that is not served may be served by others.
            if !is_of_gateway {
                finding.gateways.extend(consequence.gateways);
            }
            finding.affected.insert(consequence.object);
        }
        for Effect { object, gateway, section, listener, gets, hosts, paths, version, .. } in effects {
            finding.gateways.insert(gateway.clone());
            let generation = version;
            finding.served.push(ServedInstead { object, gateway, section, generation, listener, gets, hosts, paths });
        }
        (finding.reason, finding.message, finding.detected_by) = (found.reason, found.message, found.detected);
    }
    finding.objects.sort();
    finding.objects.dedup();
    finding.served.sort();
    finding.served.dedup();
    // The identity of an object has a UID only where it is known.
    let objects = finding.objects.iter().map(|subject| &subject.object);
    let known = objects.chain(finding.served.iter().map(|served| &served.object)).map(Identity::key);
    let mut known: BTreeSet<ObjectKey> = known.collect();
    finding.affected.retain(|object| known.insert(object.key()));
    finding.since = finding.objects.iter().filter_map(|subject| subject.since).min();
    finding
}

/// Returns a finding about a Gateway as a whole.
pub(super) fn of_gateway(
    object: &Identity,
    name: &Arc<str>,
    reason: &str,
    message: String,
    since: Option<Moment>,
) -> HealthFinding {
    HealthFinding {
        reason: reason.to_owned(),
        message,
        detected_by: DetectedBy::Envoys,
        objects: vec![ObjectAtFault {
            object: object.clone(),
            generation: None,
            field: String::new(),
            place: None,
            since,
            not_backfilled: None,
        }],
        served: Vec::new(),
        affected: BTreeSet::new(),
        gateways: BTreeSet::from([name.clone()]),
        since,
        next: "/debug/envoys".to_owned(),
    }
}
