//! A piece of translation that panics takes nothing else along: what it was about is closed, and told.
//!
//! Translation is not supposed to panic, whatever it is given. Should it do so all the same, one object must not keep
//! those of others from being served.

use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_graph::ObjectKey;

#[cfg(any(test, feature = "testing"))]
use super::Unit;
use crate::fault::{Class, Fault};

/// What is told of a piece that failed.
const MESSAGE: &str = "Holdfast itself failed on this object, which stays closed: please report it";

/// Runs a piece; `None` where it panicked. What it had changed of its reader's notes stays: it was looked at.
pub(super) fn guarded<T>(piece: impl FnOnce() -> T) -> Option<T> {
    // The piece only reads, and what it writes is thrown away with it.
    catch_unwind(AssertUnwindSafe(piece)).ok()
}

/// What is told of an object on which translation failed.
pub(super) fn fault(key: &ObjectKey) -> Fault {
    Fault::new(key, Class::Invalid, "", "InternalError", MESSAGE)
}

/// The object that a unit is about.
#[cfg(any(test, feature = "testing"))]
pub(super) fn subject(unit: &Unit) -> &ObjectKey {
    match unit {
        Unit::Policy(key)
        | Unit::Levels(key)
        | Unit::Host(key)
        | Unit::Set(key)
        | Unit::Gateway(key)
        | Unit::Claims(key)
        | Unit::Route(key)
        | Unit::Secret(key) => key,
        Unit::Extension(key) | Unit::BackEnd(key) | Unit::Class(key) => key,
        Unit::RouteVariant(_, key) => key,
        Unit::GatewayVariant(fleet) | Unit::LevelsVariant(fleet) => &fleet.gateway,
        Unit::Endpoints(service) => &service.key,
    }
}

/// Fails on objects that a test has marked.
#[cfg(any(test, feature = "testing"))]
pub(super) fn poison(object: Option<&crate::object::Object>) {
    assert!(
        !object.is_some_and(|object| object.metadata.annotations.contains_key("holdfast.dev/testing-poison")),
        "a test asked for this"
    );
}
