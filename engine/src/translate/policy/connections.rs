//! What ListenerPolicies say to the listeners of a Gateway.
//!
//! Not every listener is one to Envoy: those without TLS share a connection manager with all others of their port, and all
//! of a port share its socket. What policies of single listeners say about what is shared holds where all that share it
//! say the same. Otherwise it holds for none of them, and what the policies of the whole Gateway say holds; a listener
//! that would go unguarded by this is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins};

use super::level::{Level, LevelPlan};
use super::said::Said;
use super::{PolicyPlan, Unenforceable};
use crate::fault::{Class, Fault};
use crate::features::connection::{ListenerSettings, Part};
use crate::features::filters::{Filter, Setting};
use crate::policies::merge::merge;
use crate::policies::settings::Field;
use crate::translate::gateway::GatewayPlan;
use crate::translate::listener::ListenerPlan;
use crate::translate::table::TableName;

/// The field that asks clients for certificates.
const CLIENTS: Field = "clientCertificateValidation";

/// What is said to a connection manager or to a socket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Connection {
    /// What is said.
    pub(crate) settings: Arc<ListenerSettings>,
    /// Who said it, by field.
    pub(crate) owners: BTreeMap<Field, Said>,
    /// What it is made of.
    pub(crate) origins: Origins,
}

/// What is said to the listeners of a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Connections {
    /// To connection managers.
    pub(crate) tables: BTreeMap<TableName, Arc<Connection>>,
    /// To sockets, by port.
    pub(crate) sockets: BTreeMap<u16, Arc<Connection>>,
    /// Policies of which something does not hold because others say something else, and what.
    pub(crate) conflicts: BTreeMap<ObjectKey, Arc<str>>,
}

/// Policies in the order in which they come first.
pub(super) type Ordered<'p> = Vec<(&'p ObjectKey, &'p Arc<PolicyPlan>)>;

/// What is said to one listener, and who says it.
struct Told<'l> {
    listener: &'l ListenerPlan,
    parts: BTreeMap<Field, Part>,
    owners: BTreeMap<Field, Said>,
    /// What is said to the Gateway as a whole.
    base: BTreeMap<Field, Part>,
    base_owners: BTreeMap<Field, Said>,
    origins: Origins,
}

impl<'l> Told<'l> {
    fn new(listener: &'l ListenerPlan, own: &Ordered<'_>, whole: &Ordered<'_>) -> Self {
        let port = listener.declared_port;
        let usable = |(_, plan): &&(&ObjectKey, &Arc<PolicyPlan>)| plan.unenforceable.is_none();
        let both = own.iter().chain(whole).filter(usable);
        let merged = merge(both.clone().map(|(key, plan)| (*key, &***plan.settings_at(port))));
        let base = merge(whole.iter().filter(usable).map(|(key, plan)| (*key, &***plan.settings_at(port))));
        let firsts = |origins: &crate::policies::merge::Origins| {
            let first = |(field, keys): (&Field, &Vec<ObjectKey>)| {
                let key = keys.first()?;
                let (_, plan) = own.iter().chain(whole).find(|(known, _)| *known == key)?;
                Some((*field, Said::new(field, plan.settings_at(port).clone())))
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

/// What those who share something are told, and which of them do not get what was said to them.
#[derive(Default)]
struct Agreed {
    parts: BTreeMap<Field, Part>,
    owners: BTreeMap<Field, Said>,
    origins: Origins,
    overruled: Vec<(usize, Field)>,
}

impl Agreed {
    fn new(all: &[&Told<'_>], wanted: impl Fn(&Part) -> bool) -> Self {
        let mut agreed = Self { origins: Origins::union(all.iter().map(|said| &said.origins)), ..Self::default() };
        let fields: BTreeSet<Field> =
            all.iter().flat_map(|said| said.parts.keys().chain(said.base.keys())).copied().collect();
        for field in fields {
            let value = |said: &Told<'_>| said.parts.get(field).filter(|part| wanted(part)).cloned();
            let mut values = all.iter().map(|said| value(said));
            let first = values.next().flatten();
            if values.all(|value| value == first) {
                let owner = all.first().and_then(|said| said.owners.get(field));
                agreed.put(field, first, owner);
                continue;
            }
            // Ports as they are written may differ where they are bound as one: who says nothing in particular counts.
            let bases = all.iter().map(|said| said.base.get(field).filter(|part| wanted(part)));
            let base = all.iter().zip(bases).find(|(_, base)| base.is_some());
            let (owner, base) = match base {
                Some((said, base)) => (said.base_owners.get(field), base.cloned()),
                None => (None, None),
            };
            let differs = |(_, said): &(usize, &&Told<'_>)| value(said) != base && said.parts.contains_key(field);
            agreed.overruled.extend(all.iter().enumerate().filter(differs).map(|(index, _)| (index, field)));
            agreed.put(field, base, owner);
        }
        agreed
    }

    fn put(&mut self, field: Field, part: Option<Part>, owner: Option<&Said>) {
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

/// What does not hold, and what is closed by that.
#[derive(Default)]
struct Notes<'l> {
    closings: Vec<(&'l ListenerPlan, ObjectKey, Class, String)>,
    conflicts: BTreeMap<ObjectKey, BTreeSet<String>>,
}

impl<'l> Notes<'l> {
    fn overruled(&mut self, group: &[&Told<'l>], agreed: &Agreed, shared: &str) {
        for (index, field) in &agreed.overruled {
            let Some((said, policy)) = group.get(*index).and_then(|said| Some((said, said.owners.get(field)?))) else {
                continue;
            };
            let ListenerPlan { name, declared_port, .. } = said.listener;
            let message = format!(
                "{field} does not hold for listener {name}: it shares {shared} with the other listeners of port \
                 {declared_port}, to which something else is said"
            );
            if said.parts.get(field).is_some_and(Part::guards) {
                self.closings.push((said.listener, policy.policy().clone(), Class::Conflict, message.clone()));
            }
            self.conflicts.entry(policy.policy().clone()).or_default().insert(message);
        }
    }
}

/// Works out what is said to the listeners of a Gateway, and closes those that would go unguarded.
pub(super) fn plan<'p>(
    key: &ObjectKey,
    gateway: &GatewayPlan,
    own: impl Fn(&ListenerPlan) -> Ordered<'p>,
    whole: &Ordered<'p>,
    levels: &mut LevelPlan,
) {
    // A listener that is served with an earlier version of its certificate has the settings of any other.
    let placed = gateway.listeners.iter().filter(|listener| listener.has_place());
    let all: Vec<Told<'_>> = placed.map(|listener| Told::new(listener, &own(listener), whole)).collect();
    if all.iter().all(|said| said.parts.is_empty()) {
        return;
    }
    let service: Arc<str> = format!("{}.{}", key.name, key.namespace).into();
    let mut notes = Notes::default();
    let ports: BTreeSet<u16> = all.iter().map(|said| said.listener.port).collect();
    let mut connections = Connections::default();
    for port in ports {
        let behind: Vec<&Told<'_>> = all.iter().filter(|said| said.listener.port == port).collect();
        let agreed = Agreed::new(&behind, Part::is_of_port);
        notes.overruled(&behind, &agreed, "its socket");
        let socket = agreed.connection(&service);
        let mut put = |table: TableName, mut agreed: Agreed| {
            // It is part of what guards each of its chains.
            if let Some(socket) = &socket {
                agreed.parts.extend(socket.settings.parts.iter().map(|(field, part)| (*field, part.clone())));
                agreed.owners.extend(socket.owners.iter().map(|(field, owner)| (*field, owner.clone())));
                agreed.origins = Origins::union([&agreed.origins, &socket.origins]);
            }
            connections.tables.extend(agreed.connection(&service).map(|connection| (table, connection)));
        };
        let plain: Vec<&Told<'_>> = behind.iter().filter(|said| !said.listener.https).copied().collect();
        if let Some(first) = plain.first() {
            let agreed = Agreed::new(&plain, |part| !part.is_of_port() && !matches!(part, Part::Clients(_)));
            notes.overruled(&plain, &agreed, "a connection manager");
            put(first.listener.table(), agreed);
        }
        for said in behind.iter().filter(|said| said.listener.https) {
            put(said.listener.table(), Agreed::new(&[said], |part| !part.is_of_port()));
        }
        connections.sockets.extend(socket.map(|socket| (port, socket)));
    }
    for said in all.iter().filter(|said| !said.listener.https) {
        if let Some(Part::Clients(clients)) = said.parts.get(CLIENTS)
            && clients.required
            && let Some(policy) = said.owners.get(CLIENTS)
        {
            let message =
                format!("spec.default.{CLIENTS}: clients of listener {} cannot show certificates", said.listener.name);
            notes.closings.push((said.listener, policy.policy().clone(), Class::Invalid, message));
        }
    }
    for (listener, policy, class, message) in notes.closings {
        close(listener, policy, Unenforceable { class, message: message.into() }, levels);
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

/// Nothing of a listener is answered.
fn close(listener: &ListenerPlan, policy: ObjectKey, why: Unenforceable, levels: &mut LevelPlan) {
    let level = match listener.https {
        true => levels.tables.entry(listener.table()).or_default(),
        false => levels.listeners.entry(listener.name.clone()).or_default(),
    };
    let level: &mut Level = Arc::make_mut(level);
    level.origins = level.origins.with(policy.clone());
    level.closed.get_or_insert((policy, why));
}

/// Route configurations demand of chains that they are guarded as they are today.
fn guard(connections: &Connections, levels: &mut LevelPlan) {
    for (table, connection) in &connections.tables {
        let Some(label) = connection.settings.label() else { continue };
        let level: &mut Level = Arc::make_mut(levels.tables.entry(table.clone()).or_default());
        level.filters.insert(Filter::Connection, Arc::new(Setting::Connection(label)));
        level.origins = Origins::union([&level.origins, &connection.origins]);
    }
}
