//! Latest snapshot of an audience, kept so that the cost of comparing two snapshots is the number of their differences.
//!
//! The caller may change the snapshot that it published before, or make each one from scratch. In both cases, clients
//! compare snapshots that share all equal resources: a full comparison, where one is needed, is done once here and not
//! by every client.

use imbl::ordmap::DiffItem;

use crate::{ResourceType, Snapshot};

/// The latest snapshot of an audience; see the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The snapshot as it was published: the next one probably shares data with it.
    given: Snapshot,
    /// Equal content, made from the previous snapshot.
    shared: Snapshot,
}

impl Published {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self { shared: snapshot.clone(), given: snapshot }
    }

    /// Returns the snapshot that clients compare.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.shared
    }

    /// Replaces the snapshot; returns whether any content differs.
    pub(crate) fn replace(&mut self, next: Snapshot) -> bool {
        let mut differs = false;
        for kind in ResourceType::ALL {
            for item in self.given.of(kind).diff(next.of(kind)) {
                match item {
                    DiffItem::Add(_, resource) => {
                        differs = true;
                        self.shared.insert(kind, resource.clone());
                    }
                    DiffItem::Update { old: (_, old), new: (_, new) } => {
                        // Only the origins may differ: then there is nothing to send, and the new origins are kept.
                        differs |= old.version != new.version;
                        self.shared.insert(kind, new.clone());
                    }
                    DiffItem::Remove(name, _) => {
                        differs = true;
                        self.shared.remove(kind, name);
                    }
                }
            }
        }
        self.given = next;
        differs
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::routes_from;

    #[test]
    fn rebuilt_equal_content_is_shared_with_the_previous_snapshot() {
        let mut published = Published::new(routes_from("x", "a=1 b=1"));
        let before = published.snapshot().clone();
        assert!(!published.replace(routes_from("x", "a=1 b=1")));
        assert!(published.snapshot().of(ResourceType::Route).ptr_eq(before.of(ResourceType::Route)));
    }

    #[test]
    fn what_is_added_changed_and_removed_is_there_afterwards() {
        let mut published = Published::new(routes_from("x", "a=1 b=1 c=1"));
        let kept = published.snapshot().get(ResourceType::Route, "a").unwrap().clone();
        let next = routes_from("x", "a=1 b=2 d=1");
        assert!(published.replace(next.clone()));
        assert_eq!(*published.snapshot(), next);
        assert!(Arc::ptr_eq(published.snapshot().get(ResourceType::Route, "a").unwrap(), &kept));
    }

    #[test]
    fn another_origin_is_taken_over_without_being_a_difference() {
        let mut published = Published::new(routes_from("x", "a=1"));
        let next = routes_from("y", "a=1");
        assert!(!published.replace(next.clone()));
        assert_eq!(*published.snapshot(), next);
    }
}
