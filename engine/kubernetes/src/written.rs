//! The statuses that were last written or read, by object.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use holdfast_api::status::ObjectStatus;
use holdfast_graph::ObjectKey;
use serde_json::Value;

/// The statuses that were last written or read.
#[derive(Debug, Default)]
pub(crate) struct WrittenStatuses {
    /// The UID and the status; `None` where the status has to be read.
    by_object: BTreeMap<ObjectKey, Option<(Arc<str>, Value)>>,
    /// The object that was last looked at.
    looked_at: Option<ObjectKey>,
}

impl WrittenStatuses {
    /// Makes all statuses to be read again.
    pub(crate) fn forget_all(&mut self) {
        self.by_object.values_mut().for_each(|written| *written = None);
    }

    /// Makes the status of the next object to be read again. Returns the object, if there is one.
    pub(crate) fn forget_next(&mut self) -> Option<ObjectKey> {
        let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        let (key, written) = self.by_object.range_mut((after, Bound::Unbounded)).next()?;
        *written = None;
        self.looked_at = Some(key.clone());
        Some(key.clone())
    }

    /// Adds an object with a status that has to be read.
    pub(crate) fn add(&mut self, key: &ObjectKey) {
        self.by_object.entry(key.clone()).or_default();
    }

    /// Returns what has to be written: the statuses that differ, and the objects that have none any more.
    pub(crate) fn differing(&self, wanted: &[ObjectStatus]) -> Vec<(ObjectKey, Option<ObjectStatus>)> {
        let present: BTreeSet<&ObjectKey> = wanted.iter().map(|status| &status.object).collect();
        let gone = self.by_object.keys().filter(|key| !present.contains(key)).map(|key| (key.clone(), None));
        let is_current = |status: &ObjectStatus| {
            let written = self.by_object.get(&status.object).and_then(Option::as_ref);
            written.is_some_and(|(uid, written)| *uid == status.uid && *written == status.status)
        };
        let changed = wanted.iter().filter(|status| !is_current(status));
        changed.map(|status| (status.object.clone(), Some(status.clone()))).chain(gone).collect()
    }

    /// Records that an object has this status, or none.
    pub(crate) fn record(&mut self, key: ObjectKey, status: Option<ObjectStatus>) {
        match status {
            Some(ObjectStatus { uid, status, .. }) => drop(self.by_object.insert(key, Some((uid, status)))),
            None => drop(self.by_object.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(name: &str, uid: &str) -> ObjectStatus {
        let object = ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", name);
        ObjectStatus { object, uid: uid.into(), status: json!({"parents": []}) }
    }

    #[test]
    fn a_successor_with_an_equal_status_gets_it() {
        let mut written = WrittenStatuses::default();
        let first = status("cart", "first");
        assert_eq!(written.differing(std::slice::from_ref(&first)).len(), 1);
        written.record(first.object.clone(), Some(first.clone()));
        assert_eq!(written.differing(std::slice::from_ref(&first)), []);
        let second = status("cart", "second");
        assert_eq!(written.differing(std::slice::from_ref(&second)).len(), 1);
        assert_eq!(written.differing(&[]), [(first.object, None)]);
    }

    #[test]
    fn objects_are_read_again_one_after_the_other() {
        let mut written = WrittenStatuses::default();
        let all = ["a", "b"].map(|name| status(name, "u"));
        for status in &all {
            written.record(status.object.clone(), Some(status.clone()));
        }
        let names = |written: &WrittenStatuses| -> Vec<String> {
            written.differing(&all).into_iter().map(|(key, _)| key.name.to_string()).collect()
        };
        let next = |written: &mut WrittenStatuses| written.forget_next().map(|key| key.name.to_string());
        assert_eq!(next(&mut written).as_deref(), Some("a"));
        assert_eq!(names(&written), ["a"]);
        assert_eq!(next(&mut written).as_deref(), Some("b"));
        assert_eq!(names(&written), ["a", "b"]);
        // After the last object comes the first one, at the next time.
        assert_eq!(next(&mut written), None);
        assert_eq!(next(&mut written).as_deref(), Some("a"));
    }
}
