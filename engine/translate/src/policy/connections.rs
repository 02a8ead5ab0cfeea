//! Settings of ListenerPolicies for the listeners of a Gateway.
//!
//! Listeners of Gateway API share parts in Envoy: listeners without TLS share a connection manager with all other such
//! listeners of their port, and all listeners of a port share its socket. A setting of a policy for a single listener
//! applies to a shared part only if all sharing listeners have the same setting. Otherwise it applies to none of them,
//! and the settings of the policies for the whole Gateway apply; a listener that would lose a guard is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::{Class, Fault};
use holdfast_envoy::features::connection::{ListenerSetting, ListenerSettings};
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::{ObjectKey, Origins};

use super::level::{Level, LevelPlan};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::ListenerPlan;
use crate::outcome::policy::{PolicyPlan, Unenforceable};
use crate::outcome::setting::PolicySetting;
use crate::precedence::merge::merge;
use crate::precedence::settings::Field;

/// Field of the verification of client certificates.
const CLIENTS: Field = "clientCertificateValidation";

/// Settings of a connection manager or a socket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// The settings.
    pub settings: Arc<ListenerSettings>,
    /// The policy setting that each field comes from.
    pub owners: BTreeMap<Field, PolicySetting>,
    /// Origins of the settings.
    pub origins: Origins,
}

/// Settings for the listeners of a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connections {
    /// Settings of connection managers.
    pub tables: BTreeMap<TableName, Arc<Connection>>,
    /// Settings of sockets, by port.
    pub sockets: BTreeMap<BoundPort, Arc<Connection>>,
    /// Policies with settings that do not apply because of different settings of other policies, and a message.
    pub conflicts: BTreeMap<ObjectKey, Arc<str>>,
}

/// Policies in order of precedence.
pub(super) type Ordered<'p> = Vec<(&'p ObjectKey, &'p Arc<PolicyPlan>)>;

/// Settings of one listener, with their policies.
struct MergedSettings<'l> {
    listener: &'l ListenerPlan,
    parts: BTreeMap<Field, ListenerSetting>,
    owners: BTreeMap<Field, PolicySetting>,
    /// Settings for the whole Gateway.
    base: BTreeMap<Field, ListenerSetting>,
    base_owners: BTreeMap<Field, PolicySetting>,
    origins: Origins,
}

impl<'l> MergedSettings<'l> {
    fn new(listener: &'l ListenerPlan, own: &Ordered<'_>, whole: &Ordered<'_>) -> Self {
        let port = listener.declared_port;
        let usable = |(_, plan): &&(&ObjectKey, &Arc<PolicyPlan>)| plan.unenforceable.is_none();
        let both = own.iter().chain(whole).filter(usable);
        let merged = merge(both.clone().map(|(key, plan)| (*key, &***plan.settings_at(port))));
        let base = merge(whole.iter().filter(usable).map(|(key, plan)| (*key, &***plan.settings_at(port))));
        let firsts = |origins: &crate::precedence::merge::Origins| {
            let first = |(field, keys): (&Field, &Vec<ObjectKey>)| {
                let key = keys.first()?;
                let (_, plan) = own.iter().chain(whole).find(|(known, _)| *known == key)?;
                Some((*field, PolicySetting::new(field, plan.settings_at(port).clone())))
            };
            origins.iter().filter_map(first).collect()
        };
        let keys = both.flat_map(|(key, plan)| plan.secrets.iter().chain([*key])).cloned();
        Self {
            listener,
            parts: merged.connection(),
            owners: firsts(&merged.origins),
            base: base.connection(),
            base_owners: firsts(&base.origins),
            origins: keys.collect(),
        }
    }
}

/// Settings of a shared part, and the listeners that lose their own settings.
#[derive(Default)]
struct Agreed {
    parts: BTreeMap<Field, ListenerSetting>,
    owners: BTreeMap<Field, PolicySetting>,
    origins: Origins,
    overruled: Vec<(usize, Field)>,
}

impl Agreed {
    fn new(all: &[&MergedSettings<'_>], wanted: impl Fn(&ListenerSetting) -> bool) -> Self {
        let mut agreed =
            Self { origins: Origins::union(all.iter().map(|settings| &settings.origins)), ..Self::default() };
        let fields: BTreeSet<Field> =
            all.iter().flat_map(|settings| settings.parts.keys().chain(settings.base.keys())).copied().collect();
        for field in fields {
            let value = |settings: &MergedSettings<'_>| settings.parts.get(field).filter(|part| wanted(part)).cloned();
            let mut values = all.iter().map(|settings| value(settings));
            let first = values.next().flatten();
            if values.all(|value| value == first) {
                let owner = all.first().and_then(|settings| settings.owners.get(field));
                agreed.put(field, first, owner);
                continue;
            }
            // Listeners with different declared ports may share one bound port: the first setting for the whole Gateway
            // applies.
            let bases = all.iter().map(|settings| settings.base.get(field).filter(|part| wanted(part)));
            let base = all.iter().zip(bases).find(|(_, base)| base.is_some());
            let (owner, base) = match base {
                Some((settings, base)) => (settings.base_owners.get(field), base.cloned()),
                None => (None, None),
            };
            let differs = |(_, settings): &(usize, &&MergedSettings<'_>)| {
                value(settings) != base && settings.parts.contains_key(field)
            };
            agreed.overruled.extend(all.iter().enumerate().filter(differs).map(|(index, _)| (index, field)));
            agreed.put(field, base, owner);
        }
        agreed
    }

    fn put(&mut self, field: Field, part: Option<ListenerSetting>, owner: Option<&PolicySetting>) {
        let (Some(part), Some(owner)) = (part, owner) else { return };
        self.parts.insert(field, part);
        self.owners.insert(field, owner.clone());
    }

    fn connection(self, service: &Arc<str>) -> Option<Arc<Connection>> {
        let Self { parts, owners, origins, .. } = self;
        let settings = Arc::new(ListenerSettings { service: service.clone(), parts });
        (!settings.parts.is_empty()).then(|| Arc::new(Connection { settings, owners, origins }))
    }
}

/// Settings that do not apply, and the listeners that are closed as a result.
#[derive(Default)]
struct Notes<'l> {
    closings: Vec<(&'l ListenerPlan, ObjectKey, Class, String)>,
    conflicts: BTreeMap<ObjectKey, BTreeSet<String>>,
}

impl<'l> Notes<'l> {
    fn overruled(&mut self, group: &[&MergedSettings<'l>], agreed: &Agreed, shared: &str) {
        for (index, field) in &agreed.overruled {
            let Some((settings, policy)) =
                group.get(*index).and_then(|settings| Some((settings, settings.owners.get(field)?)))
            else {
                continue;
            };
            let ListenerPlan { name, declared_port, .. } = settings.listener;
            let message = format!(
                "{field} is not applied to listener {name}: the listener shares {shared} with the other listeners of \
                 port {declared_port}, which have another value"
            );
            if settings.parts.get(field).is_some_and(ListenerSetting::guards) {
                self.closings.push((settings.listener, policy.policy().clone(), Class::Conflict, message.clone()));
            }
            self.conflicts.entry(policy.policy().clone()).or_default().insert(message);
        }
    }
}

/// Validation of client certificates that a Gateway requires.
impl<'l> Notes<'l> {
    /// Adds the validation to the settings of a TLS listener. A listener can have only one: with another one of a policy,
    /// it is closed.
    fn validated(&mut self, listener: &'l ListenerPlan, agreed: &mut Agreed) {
        let Some(clients) = &listener.clients else { return };
        if let Some(policy) = agreed.owners.get(CLIENTS) {
            let message = format!(
                "spec.default.{CLIENTS}: the Gateway validates the client certificates of listener {} as well \
                 (spec.tls.frontend); remove one of them",
                listener.name
            );
            self.closings.push((listener, policy.policy().clone(), Class::Conflict, message));
        }
        let trust = &clients.trust;
        let objects = trust.authorities.iter().map(|(key, _)| key).chain(&trust.besides).chain([&trust.owner]);
        agreed.origins = Origins::union([&agreed.origins, &objects.cloned().collect()]);
        agreed.parts.insert(CLIENTS, ListenerSetting::Clients(clients.clone()));
        agreed.owners.remove(CLIENTS);
    }
}

/// Computes the settings for the listeners of a Gateway, and closes listeners that would lose a guard.
pub(super) fn plan<'p>(
    key: &ObjectKey,
    gateway: &GatewayPlan,
    own: impl Fn(&ListenerPlan) -> Ordered<'p>,
    whole: &Ordered<'p>,
    levels: &mut LevelPlan,
) {
    // A listener that is served with an earlier version of its certificate has the usual settings.
    let placed = gateway.listeners.iter().filter(|listener| listener.has_place());
    let all: Vec<MergedSettings<'_>> =
        placed.map(|listener| MergedSettings::new(listener, &own(listener), whole)).collect();
    if all.iter().all(|settings| settings.parts.is_empty() && settings.listener.clients.is_none()) {
        return;
    }
    let service: Arc<str> = format!("{}.{}", key.name, key.namespace).into();
    let mut notes = Notes::default();
    let ports: BTreeSet<BoundPort> = all.iter().map(|settings| settings.listener.bound()).collect();
    let mut connections = Connections::default();
    for port in ports {
        let behind: Vec<&MergedSettings<'_>> = all.iter().filter(|own| own.listener.bound() == port).collect();
        let agreed = Agreed::new(&behind, ListenerSetting::is_of_port);
        notes.overruled(&behind, &agreed, "its socket");
        let socket = agreed.connection(&service);
        let mut put = |table: TableName, mut agreed: Agreed| {
            // The settings of the socket are part of the guard of each filter chain.
            if let Some(socket) = &socket {
                agreed.parts.extend(socket.settings.parts.iter().map(|(field, part)| (*field, part.clone())));
                agreed.owners.extend(socket.owners.iter().map(|(field, owner)| (*field, owner.clone())));
                agreed.origins = Origins::union([&agreed.origins, &socket.origins]);
            }
            connections.tables.extend(agreed.connection(&service).map(|connection| (table, connection)));
        };
        let plain: Vec<&MergedSettings<'_>> =
            behind.iter().filter(|settings| !settings.listener.https).copied().collect();
        if let Some(first) = plain.first() {
            let agreed = Agreed::new(&plain, |part| !part.is_of_port() && !matches!(part, ListenerSetting::Clients(_)));
            notes.overruled(&plain, &agreed, "a connection manager");
            put(first.listener.table(), agreed);
        }
        for settings in behind.iter().filter(|settings| settings.listener.https) {
            let mut agreed = Agreed::new(&[settings], |part| !part.is_of_port());
            notes.validated(settings.listener, &mut agreed);
            put(settings.listener.table(), agreed);
        }
        connections.sockets.extend(socket.map(|socket| (port, socket)));
    }
    for settings in all.iter().filter(|settings| !settings.listener.https) {
        if let Some(ListenerSetting::Clients(clients)) = settings.parts.get(CLIENTS)
            && clients.required
            && let Some(policy) = settings.owners.get(CLIENTS)
        {
            let message = format!(
                "spec.default.{CLIENTS}: clients of listener {} cannot show certificates",
                settings.listener.name
            );
            notes.closings.push((settings.listener, policy.policy().clone(), Class::Invalid, message));
        }
    }
    for (listener, policy, class, message) in notes.closings {
        let kind = policy.kind.clone();
        close(listener, policy, Unenforceable { class, message: message.into(), kind }, levels);
    }
    let joined = |(policy, messages): (ObjectKey, BTreeSet<String>)| {
        (policy, Arc::from(messages.into_iter().collect::<Vec<_>>().join("; ")))
    };
    connections.conflicts = notes.conflicts.into_iter().map(joined).collect();
    for (policy, message) in &connections.conflicts {
        levels.faults.push(Fault::new(policy, Class::Conflict, "spec", "Conflicted", &**message));
    }
    guard(&connections, levels);
    levels.connections = connections;
}

/// Closes a listener as a whole.
fn close(listener: &ListenerPlan, policy: ObjectKey, why: Unenforceable, levels: &mut LevelPlan) {
    let level = match listener.has_own_table() {
        true => levels.tables.entry(listener.table()).or_default(),
        false => levels.listeners.entry(listener.name.clone()).or_default(),
    };
    let level: &mut Level = Arc::make_mut(level);
    level.origins = level.origins.with(policy.clone());
    level.closed.get_or_insert((policy, why));
}

/// Makes route configurations require filter chains with today's guards.
fn guard(connections: &Connections, levels: &mut LevelPlan) {
    for (table, connection) in &connections.tables {
        let Some(label) = connection.settings.label() else { continue };
        let level: &mut Level = Arc::make_mut(levels.tables.entry(table.clone()).or_default());
        level.filters.insert(Filter::Connection, Arc::new(Setting::Connection(label)));
        level.origins = Origins::union([&level.origins, &connection.origins]);
    }
}
