//! The sorts of edits, and what each changes.

use holdfast_scenario_tests::story::dice::Dice;

use super::form::{Backend, Form, Kind, PathMatch};
use super::guard::Guard;
use super::slot::Slot;

/// A sort of edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edit {
    /// Creates the route, with or without a guard.
    Create,
    /// Deletes the route together with its guard.
    Delete,
    /// Changes the backend.
    Backend,
    /// Changes the response header.
    Header,
    /// Changes to a match that every Envoy accepts.
    GoodPath,
    /// Changes the hostname.
    Hostname,
    /// Adds a guard.
    AddGuard,
    /// Changes the credentials of the guard.
    ChangeGuard,
    /// Removes the guard.
    RemoveGuard,
    /// Changes to a backend that does not exist.
    MissingBackend,
    /// Changes to a match that Envoys refuse.
    RefusedPath,
    /// Changes to a match that translation refuses.
    BadPath,
    /// Changes to a hostname that cannot be used.
    BadHostname,
    /// Adds a mistake that one Envoy refuses.
    Mistake,
    /// Breaks the guard.
    BreakGuard,
    /// Replaces the guard by a broken one with other credentials, or adds a broken one.
    BrokenGuard,
    /// Makes route and guard valid.
    Repair,
}

/// The edits of a namespace that makes only valid edits.
pub(super) const GOOD: [Edit; 9] = [
    Edit::Create,
    Edit::Delete,
    Edit::Backend,
    Edit::Header,
    Edit::GoodPath,
    Edit::Hostname,
    Edit::AddGuard,
    Edit::ChangeGuard,
    Edit::RemoveGuard,
];

/// The further edits of an adversary.
pub(super) const BAD: [Edit; 8] = [
    Edit::MissingBackend,
    Edit::RefusedPath,
    Edit::BadPath,
    Edit::BadHostname,
    Edit::Mistake,
    Edit::BreakGuard,
    Edit::BrokenGuard,
    Edit::Repair,
];

impl Edit {
    /// Whether the edit changes the route as it is.
    pub(super) fn applies(self, slot: &Slot) -> bool {
        let (exists, is_guarded) = (slot.form.is_some(), slot.guard.is_some());
        match self {
            Self::Create => !exists,
            Self::AddGuard => exists && !is_guarded && slot.kind == Kind::HttpRoute,
            Self::BrokenGuard => exists && slot.kind == Kind::HttpRoute,
            Self::ChangeGuard | Self::RemoveGuard | Self::BreakGuard => exists && is_guarded,
            _ => exists,
        }
    }

    /// Whether the edit begins or ends the existence of the route, or the protection by a guard.
    pub(super) fn begins_or_ends(self) -> bool {
        matches!(self, Self::Create | Self::Delete | Self::AddGuard | Self::RemoveGuard)
    }

    /// Changes the desired state of the route.
    pub(super) fn apply(self, slot: &mut Slot, dice: &mut Dice) {
        slot.version += 1;
        let (version, host) = (slot.version, slot.host);
        match self {
            Self::Create => {
                slot.form = Some(Form::good(version, host));
                let is_guarded = slot.kind == Kind::HttpRoute && dice.one_in(2);
                slot.set_guard(is_guarded.then(|| Guard::new(version, dice)));
            }
            Self::Delete => {
                slot.form = None;
                slot.set_guard(None);
            }
            Self::AddGuard | Self::ChangeGuard => slot.set_guard(Some(Guard::new(version, dice))),
            Self::RemoveGuard => slot.set_guard(None),
            Self::BreakGuard => slot.set_guard(slot.guard.map(|guard| guard.broken(dice))),
            Self::BrokenGuard => slot.set_guard(Some(Guard::new(version, dice).broken(dice))),
            Self::Repair => {
                slot.form = Some(Form::good(version, host));
                slot.set_guard(slot.guard.map(Guard::repaired));
            }
            Self::Hostname => slot.host += 1,
            _ => {}
        }
        let host = slot.host;
        if let Some(form) = &mut slot.form {
            form.version = version;
            self.change(form, host, dice);
        }
        slot.decide();
    }

    fn change(self, form: &mut Form, host: u64, dice: &mut Dice) {
        match self {
            Self::Backend if form.backend == Backend::First => form.backend = Backend::Second,
            Self::Backend => form.backend = Backend::First,
            Self::MissingBackend => form.backend = Backend::Missing,
            Self::GoodPath => {
                let paths = [PathMatch::Prefix, PathMatch::Exact, PathMatch::GoodRegex];
                form.path = paths[dice.index(paths.len())];
            }
            Self::RefusedPath => form.path = PathMatch::LargeRegex,
            Self::BadPath => form.path = PathMatch::BadRegex,
            Self::Hostname => (form.host, form.has_bad_host) = (host, false),
            Self::BadHostname => form.has_bad_host = true,
            Self::Mistake => form.has_mistake = true,
            _ => {}
        }
    }
}
