//! The statuses that were last written or read, by object.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use holdfast_api::status::{ObjectStatus, StatusMap};
use holdfast_graph::ObjectKey;
use imbl::ordmap::DiffItem;

/// The statuses that were last written or read.
#[derive(Debug, Default)]
pub(crate) struct WrittenStatuses {
    written: StatusMap,
    /// The objects with a status that has to be read.
    unread: BTreeSet<ObjectKey>,
    /// The object that was last looked at.
    looked_at: Option<ObjectKey>,
}

impl WrittenStatuses {
    /// Makes all statuses to be read again.
    pub(crate) fn forget_all(&mut self) {
        self.unread.extend(self.written.keys().cloned());
    }

    /// Makes the status of the next object to be read again. Returns the object, if there is one.
    pub(crate) fn forget_next(&mut self) -> Option<ObjectKey> {
        let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        let (key, _) = self.written.range((after, Bound::Unbounded)).next()?;
        self.unread.insert(key.clone());
        self.looked_at = Some(key.clone());
        self.looked_at.clone()
    }

    /// Adds the objects that have a status, which has to be read.
    pub(crate) fn add(&mut self, wanted: &StatusMap) {
        let absent: Vec<_> = wanted.iter().filter(|(key, _)| !self.written.contains_key(*key)).collect();
        for (key, status) in absent {
            self.unread.insert(key.clone());
            self.written.insert(key.clone(), status.clone());
        }
    }

    /// Returns what has to be written: the statuses that differ, and the objects that have none any more.
    pub(crate) fn differing(&self, wanted: &StatusMap) -> BTreeMap<ObjectKey, Option<Arc<ObjectStatus>>> {
        let unread = self.unread.iter().map(|key| (key.clone(), wanted.get(key).cloned()));
        let differing = self.written.diff(wanted).map(|item| match item {
            DiffItem::Add(key, status) => (key.clone(), Some(status.clone())),
            DiffItem::Update { new: (key, status), .. } => (key.clone(), Some(status.clone())),
            DiffItem::Remove(key, _) => (key.clone(), None),
        });
        unread.chain(differing).collect()
    }

    /// Records that an object has this status, or none.
    pub(crate) fn record(&mut self, key: ObjectKey, status: Option<Arc<ObjectStatus>>) {
        self.unread.remove(&key);
        match status {
            Some(status) => drop(self.written.insert(key, status)),
            None => drop(self.written.remove(&key)),
        }
    }

    /// Records that all these statuses, and no others, are written. The next comparison visits only what changes in them.
    pub(crate) fn record_all(&mut self, wanted: &StatusMap) {
        if self.unread.is_empty() {
            self.written = wanted.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(name: &str, uid: &str) -> (ObjectKey, Arc<ObjectStatus>) {
        let object = ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", name);
        let status = ObjectStatus { object: object.clone(), uid: uid.into(), status: json!({"parents": []}) };
        (object, Arc::new(status))
    }

    fn names(written: &WrittenStatuses, wanted: &StatusMap) -> Vec<String> {
        written.differing(wanted).into_keys().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn a_successor_with_an_equal_status_gets_it() {
        let mut written = WrittenStatuses::default();
        let (key, first) = status("cart", "first");
        let wanted = StatusMap::unit(key.clone(), first.clone());
        assert_eq!(names(&written, &wanted), ["cart"]);
        written.record(key.clone(), Some(first));
        assert!(written.differing(&wanted).is_empty());
        let (_, second) = status("cart", "second");
        assert_eq!(names(&written, &StatusMap::unit(key.clone(), second)), ["cart"]);
        assert_eq!(written.differing(&StatusMap::new()), [(key, None)].into());
    }

    #[test]
    fn objects_are_read_again_one_after_the_other() {
        let mut written = WrittenStatuses::default();
        let all = ["a", "b"].map(|name| status(name, "u"));
        let all: StatusMap = all.into_iter().collect();
        written.record_all(&all);
        let next = |written: &mut WrittenStatuses| written.forget_next().map(|key| key.name.to_string());
        assert_eq!(next(&mut written).as_deref(), Some("a"));
        assert_eq!(names(&written, &all), ["a"]);
        assert_eq!(next(&mut written).as_deref(), Some("b"));
        assert_eq!(names(&written, &all), ["a", "b"]);
        // After the last object comes the first one, at the next time.
        assert_eq!(next(&mut written), None);
        assert_eq!(next(&mut written).as_deref(), Some("a"));
    }
}
