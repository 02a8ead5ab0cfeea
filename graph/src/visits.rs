//! Counts of what the deciding code visits.
//!
//! An edit must cost what it touches. Passes over all objects, routes, hosts or resources therefore count what they visit,
//! on the thread that makes them: a test compares the counts at different numbers of routes, and metrics show them.

use std::cell::Cell;
use std::ops::{AddAssign, Sub};

/// Numbers of visits, or visits of one thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Objects: units of translation, objects that a report looks at, and origins that are put in order.
    pub objects: u64,
    /// Plans of route objects, and routes of virtual hosts that are encoded again.
    pub routes: u64,
    /// Virtual hosts of route configurations that are encoded again.
    pub hosts: u64,
    /// Acknowledged resources that are copied or compared, and endpoints that are looked up.
    pub resources: u64,
    /// Bytes of resources that are encoded, or searched for credentials.
    pub bytes: u64,
}

impl Visits {
    /// The counts with their names.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { objects, routes, hosts, resources, bytes } = *self;
        [("objects", objects), ("routes", routes), ("hosts", hosts), ("resources", resources), ("bytes", bytes)]
    }

    /// Returns the result of a function, and what it visited.
    pub fn of<T>(function: impl FnOnce() -> T) -> (T, Self) {
        let before = VISITS.get();
        let result = function();
        (result, VISITS.get() - before)
    }
}

impl Sub for Visits {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            objects: self.objects.wrapping_sub(before.objects),
            routes: self.routes.wrapping_sub(before.routes),
            hosts: self.hosts.wrapping_sub(before.hosts),
            resources: self.resources.wrapping_sub(before.resources),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }
}

impl AddAssign for Visits {
    fn add_assign(&mut self, more: Self) {
        self.objects = self.objects.wrapping_add(more.objects);
        self.routes = self.routes.wrapping_add(more.routes);
        self.hosts = self.hosts.wrapping_add(more.hosts);
        self.resources = self.resources.wrapping_add(more.resources);
        self.bytes = self.bytes.wrapping_add(more.bytes);
    }
}

thread_local! {
    static VISITS: Cell<Visits> = const {
        Cell::new(Visits { objects: 0, routes: 0, hosts: 0, resources: 0, bytes: 0 })
    };
}

fn add(more: Visits) {
    let mut visits = VISITS.get();
    visits += more;
    VISITS.set(visits);
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Counts objects.
pub fn objects(count: usize) {
    add(Visits { objects: number(count), ..Visits::default() });
}

/// Counts plans of route objects, or routes of virtual hosts.
pub fn routes(count: usize) {
    add(Visits { routes: number(count), ..Visits::default() });
}

/// Counts virtual hosts.
pub fn hosts(count: usize) {
    add(Visits { hosts: number(count), ..Visits::default() });
}

/// Counts acknowledged resources.
pub fn resources(count: usize) {
    add(Visits { resources: number(count), ..Visits::default() });
}

/// Counts bytes of encoded resources.
pub fn bytes(count: usize) {
    add(Visits { bytes: number(count), ..Visits::default() });
}
