//! What a function of a module leaves to its scope.
//!
//! Modules change their own state and return what has to follow. Only the scope carries it out, so that no module calls
//! the scope.

/// What has to follow a change, from the least to the most: each step includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "only the scope carries it out"]
pub enum Next {
    /// Nothing.
    #[default]
    Nothing,
    /// The rollout of the wanted configuration advances.
    Advance,
    /// The current translation is staged again, with the same plan.
    Restage,
    /// The translation of a new plan is compared with what is known to be refused.
    Judge,
    /// The plan is derived again from the same suspicions.
    Derive,
    /// The plan is derived again, without suspicions that do not apply any longer.
    Replan,
}

impl Next {
    /// Returns the step that includes both.
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}
