//! Regex budgets of HTTPProxies: each HTTPProxy has a separate budget of steps for each HTTPProxy that includes it.

use std::collections::BTreeMap;
use std::rc::Rc;

use holdfast_check::re2::{Limits, Regexes};
use holdfast_graph::ObjectKey;

/// The regex budgets of one include tree. HTTPProxies do not share a budget, and all fields of an HTTPProxy share one.
#[derive(Debug)]
pub struct Budgets {
    limits: Limits,
    /// Budgets by the including and the included HTTPProxy.
    regexes: BTreeMap<(Option<ObjectKey>, ObjectKey), Rc<Regexes>>,
}

impl Budgets {
    /// Creates the budgets of a tree before its first field is read.
    pub fn new(limits: Limits) -> Self {
        Self { limits, regexes: BTreeMap::new() }
    }

    /// Returns the budget of an HTTPProxy with these ancestors, the root first.
    pub fn of(&mut self, ancestors: &[ObjectKey], key: &ObjectKey) -> Rc<Regexes> {
        let regexes = self.regexes.entry((ancestors.last().cloned(), key.clone()));
        Rc::clone(regexes.or_insert_with(|| Rc::new(Regexes::of_object(self.limits))))
    }
}
