//! The regexes of HTTPProxies: each proxy has steps of its own for each proxy that includes it.

use std::collections::BTreeMap;
use std::rc::Rc;

use holdfast_graph::ObjectKey;

use crate::check::re2::{Limits, Regexes};

/// The regexes of the proxies of one tree. No proxy spends what another one has, and all fields of a proxy spend the same.
#[derive(Debug)]
pub(crate) struct Budgets {
    limits: Limits,
    /// By the including and the included proxy.
    regexes: BTreeMap<(Option<ObjectKey>, ObjectKey), Rc<Regexes>>,
}

impl Budgets {
    /// Those of a tree of which nothing was read yet.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, regexes: BTreeMap::new() }
    }

    /// The regexes of a proxy below others, the root first.
    pub(crate) fn of(&mut self, ancestors: &[ObjectKey], key: &ObjectKey) -> Rc<Regexes> {
        let regexes = self.regexes.entry((ancestors.last().cloned(), key.clone()));
        Rc::clone(regexes.or_insert_with(|| Rc::new(Regexes::of_object(self.limits))))
    }
}
