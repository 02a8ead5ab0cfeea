//! A route at a host, in its position among the routes of the host.
//!
//! The position is part of the route, except for whether it yields to claims of today: a copy of it for each host would be
//! larger than all else that a host keeps of a route.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::outcome::route::Rendered;

/// A route at a host; routes at the same position are equal.
#[derive(Clone, Debug)]
pub(super) struct PlacedRoute {
    /// Whether only an earlier version claims the place or the route.
    lent: bool,
    /// The route.
    pub(super) rendered: Arc<Rendered>,
}

impl PlacedRoute {
    /// Returns a route at a place; `lent`: whether only an earlier version of the object claims the place.
    pub(super) fn new(rendered: Arc<Rendered>, lent: bool) -> Self {
        Self { lent: lent || rendered.route.precedence.lent, rendered }
    }
}

impl Ord for PlacedRoute {
    fn cmp(&self, other: &Self) -> Ordering {
        let [own, others] = [self, other].map(|placed| &placed.rendered.route.precedence);
        self.lent.cmp(&other.lent).then_with(|| own.cmp_of_equal_claims(others))
    }
}

impl PartialOrd for PlacedRoute {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PlacedRoute {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PlacedRoute {}
