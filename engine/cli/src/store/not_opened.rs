//! A store that could not be opened at the start: why, and what to do now.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holdfast_store::StoreError;
use holdfast_store::sled::SledStore;

/// How long the result of a check of the disk is used.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A store that could not be opened.
#[derive(Debug)]
pub struct NotOpened {
    folder: PathBuf,
    why: String,
    is_full: bool,
    /// When the disk was last checked, and the sentence since then.
    seen: Mutex<Option<(Instant, String)>>,
}

impl NotOpened {
    /// Records the error of opening the store in a folder.
    pub fn new(folder: PathBuf, error: &StoreError) -> Self {
        let (why, is_full) = (error.to_string(), matches!(error, StoreError::Full(_)));
        Self { folder, why, is_full, seen: Mutex::default() }
    }

    /// Returns what prevents storing, and what to do. The space on the disk is checked again at intervals.
    pub fn message(&self, now: Instant) -> String {
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((at, message)) = &*seen
            && now.saturating_duration_since(*at) < LOOK_EVERY
        {
            return message.clone();
        }
        let message = self.look();
        *seen = Some((now, message.clone()));
        message
    }

    fn look(&self) -> String {
        if !self.is_full {
            return format!(
                "the store was not opened at the start: {}: restart Holdfast when this is mended",
                self.why
            );
        }
        match SledStore::has_room(&self.folder) {
            Ok(()) => {
                let folder = self.folder.display();
                format!(
                    "the store was not opened, because the disk was full at the start ({folder}); there is enough \
                         space now: restart Holdfast"
                )
            }
            Err(error) => format!("the store was not opened at the start: {error}: free space, then restart Holdfast"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_space_is_checked_again_and_the_message_names_the_restart() {
        let folder = tempfile::tempdir().unwrap();
        let full = StoreError::Full("/data/store: 53248 bytes are free".into());
        let place = folder.path().join("store");
        let store = NotOpened::new(place.clone(), &full);
        let start = Instant::now();
        let before = store.message(start);
        assert!(before.contains("restart Holdfast") && !before.contains("enough"), "no such folder: {before}");
        std::fs::create_dir(&place).unwrap();
        assert_eq!(store.message(start + LOOK_EVERY / 2), before);
        let after = store.message(start + LOOK_EVERY);
        assert!(after.contains("enough space now: restart Holdfast") && !after.contains("53248"), "{after}");

        let used = NotOpened::new(place.clone(), &StoreError::InUse(place.display().to_string()));
        assert!(used.message(start).contains("another process uses"), "{used:?}");
        assert!(used.message(start).ends_with("restart Holdfast when this is mended"), "{used:?}");
    }
}
