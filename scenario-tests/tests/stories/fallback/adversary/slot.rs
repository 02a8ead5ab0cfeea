//! A route with its desired state, and what is known about its requests.

use std::collections::BTreeMap;

use anyhow::Result;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};

use super::door::{Door, Staleness};
use super::form::{Form, Kind, host, path};
use super::guard::Guard;

/// The namespace that makes only valid edits.
pub(super) const CALM: &str = "calm";
/// The namespace with single edits of every sort.
pub(super) const WILD: &str = "wild";
/// The namespace with many edits of one route in a row.
pub(super) const CROWD: &str = "crowd";

/// A sort of requests that may have to stay without a response of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A client without credentials.
    Plain,
    /// A client with the newest credentials.
    Authorized,
    /// A client with the credentials before the newest.
    Former,
}

/// All of them.
pub(super) const SENDERS: [Sender; 3] = [Sender::Plain, Sender::Authorized, Sender::Former];

/// A route.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The namespace.
    pub(super) namespace: &'static str,
    /// The name, which is also the first segment of the path and part of the hostname.
    pub(super) name: String,
    /// The kind.
    pub(super) kind: Kind,
    /// The desired version; none if the route is deleted.
    pub(super) form: Option<Form>,
    /// The desired guard.
    pub(super) guard: Option<Guard>,
    /// The newest version.
    pub(super) version: u64,
    /// The newest number in the hostname.
    pub(super) host: u64,
    /// The step of the attack until which the route is not created or deleted, and stays guarded if it is guarded.
    pub(super) stays_until: u64,
    /// The guard before the desired one, with other credentials.
    former: Option<Guard>,
    /// The last guard, also of a deleted route.
    last: Option<Guard>,
    /// By [`Sender`].
    doors: [Door; 3],
    /// By Envoy.
    pub(super) staleness: BTreeMap<String, Staleness>,
}

impl Slot {
    /// A route that does not exist yet.
    pub(super) fn new(namespace: &'static str, number: usize, kind: Kind) -> Self {
        Self {
            namespace,
            name: format!("{namespace}{number}"),
            kind,
            form: None,
            guard: None,
            version: 0,
            host: 0,
            stays_until: 0,
            former: None,
            last: None,
            doors: [Door::closed(); 3],
            staleness: BTreeMap::new(),
        }
    }

    /// What is known about a sort of requests.
    pub(super) fn door(&mut self, sender: Sender) -> &mut Door {
        &mut self.doors[sender as usize]
    }

    /// Returns a request of this sort; none if there are no such credentials.
    pub(super) fn request(&self, port: u16, sender: Sender) -> Option<HttpRequest> {
        self.request_to(port, sender, self.host)
    }

    /// Returns a request of this sort with a number in the hostname.
    pub(super) fn request_to(&self, port: u16, sender: Sender, number: u64) -> Option<HttpRequest> {
        let request = get(port, &path(&self.name)).host(&host(&self.name, number));
        match sender {
            Sender::Plain => Some(request),
            Sender::Authorized => self.last.map(|guard| guard.authorized(request)),
            Sender::Former => self.former.map(|guard| guard.authorized(request)),
        }
    }

    /// Returns the request that gets the desired version.
    pub(super) fn served_request(&self, port: u16) -> Option<HttpRequest> {
        let sender = if self.guard.is_some() { Sender::Authorized } else { Sender::Plain };
        self.form.and_then(|_| self.request(port, sender))
    }

    /// Whether one of its backends responded.
    pub(super) fn is_from_backend(&self, reply: &Reply) -> bool {
        let of_name = |pod: String| pod.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('-'));
        reply.pod().is_ok_and(of_name)
    }

    /// Whether the reply is that of the desired version.
    pub(super) fn is_right(&self, reply: &Reply) -> bool {
        let Some(form) = self.form else { return false };
        let is_pod = reply.pod().is_ok_and(|pod| pod == form.service(&self.name));
        is_pod && reply.header("x-version") == form.version.to_string()
    }

    /// Replaces the guard; other credentials make the earlier ones former ones.
    pub(super) fn set_guard(&mut self, guard: Option<Guard>) {
        if let (Some(before), Some(now)) = (self.guard, guard)
            && before.number != now.number
        {
            self.former = Some(before);
            let door = self.door(Sender::Former);
            door.open();
            door.shut();
        }
        self.guard = guard;
        self.last = guard.or(self.last);
    }

    /// Records what the desired state allows.
    pub(super) fn decide(&mut self) {
        self.staleness.values_mut().for_each(|staleness| *staleness = Staleness::default());
        match (self.form, self.guard) {
            (Some(_), None) => {
                (self.last, self.former) = (None, None);
                SENDERS.into_iter().for_each(|sender| self.door(sender).open());
            }
            (Some(_), Some(_)) => {
                self.door(Sender::Plain).shut();
                self.door(Sender::Former).shut();
                self.door(Sender::Authorized).open();
            }
            (None, _) => SENDERS.into_iter().for_each(|sender| self.door(sender).shut()),
        }
    }

    /// The objects of the route.
    pub(super) fn manifest(&self) -> String {
        let Some(form) = self.form else { return String::new() };
        let route = form.manifest(self.kind, self.namespace, &self.name);
        let guard = self.guard.into_iter().flat_map(|guard| guard.manifests(self.namespace, &self.name));
        documents(&guard.chain([route]).collect::<Vec<_>>())
    }

    /// Writes the route with its guard into one file, or deletes the file.
    pub(super) fn write(&self, world: &World) -> Result<()> {
        let file = format!("{}.yaml", self.name);
        match self.form {
            Some(_) => world.write(&file, self.manifest()),
            None => world.delete(&file),
        }
    }
}
