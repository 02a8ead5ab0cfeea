//! Contents that a client refused, so that they are not sent again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::Version;
use crate::limits::REFUSED_MAX;

/// The refused contents of one client and one type.
///
/// A content stays refused when the name has had another content meanwhile: an Envoy acknowledges a repeated SDS
/// resource that it refused before, without using it.
#[derive(Debug, Default)]
pub(crate) struct RefusedContents {
    by_name: BTreeMap<Arc<str>, Vec<Version>>,
    order: VecDeque<(Arc<str>, Version)>,
}

impl RefusedContents {
    pub(crate) fn add(&mut self, name: Arc<str>, version: Version) {
        if self.contains(&name, version) {
            return;
        }
        self.by_name.entry(name.clone()).or_default().push(version);
        self.order.push_back((name, version));
        if self.order.len() > REFUSED_MAX
            && let Some((name, version)) = self.order.pop_front()
            && let Some(versions) = self.by_name.get_mut(&name)
        {
            versions.retain(|kept| *kept != version);
            if versions.is_empty() {
                self.by_name.remove(&name);
            }
        }
    }

    /// Allows a content to be sent once more; returns whether it was refused.
    pub(crate) fn forget(&mut self, name: &str, version: Version) -> bool {
        if !self.contains(name, version) {
            return false;
        }
        self.order.retain(|(known, refused)| **known != *name || *refused != version);
        if let Some(versions) = self.by_name.get_mut(name) {
            versions.retain(|kept| *kept != version);
            if versions.is_empty() {
                self.by_name.remove(name);
            }
        }
        true
    }

    pub(crate) fn contains(&self, name: &str, version: Version) -> bool {
        self.by_name.get(name).is_some_and(|versions| versions.contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first_and_memory_is_bounded() {
        let mut refusals = RefusedContents::default();
        let version = |n: usize| Version::of(&n.to_le_bytes());
        for n in 0..REFUSED_MAX + 10 {
            refusals.add(Arc::from(format!("r{}", n % 7)), version(n));
        }
        assert_eq!(refusals.order.len(), REFUSED_MAX);
        assert!(!refusals.contains("r0", version(0)));
        assert!(refusals.contains(&format!("r{}", (REFUSED_MAX + 9) % 7), version(REFUSED_MAX + 9)));
        assert_eq!(refusals.by_name.values().map(Vec::len).sum::<usize>(), REFUSED_MAX);
    }
}
