//! Inputs of health from outside the engine: sources of objects, the Lease, the socket of the xDS server, the data
//! folder, and the dates of faults, which are stored there.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use holdfast_api::ledger::Ledger;
use holdfast_kubernetes::leader::Leadership;
use holdfast_kubernetes::sources::Sources;
use holdfast_xds::Reachable;

use crate::data::{OpenedFolder, write_private};
use crate::store::not_opened::NotOpened;

/// The file of the dates, in the data folder.
const FILE: &str = "faults.json";
/// Maximum size of the file, in bytes; Holdfast does not write a larger one.
const FAULT_DATES_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The inputs of health from outside the engine.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The state of the sources of objects.
    pub(crate) sources: Arc<Sources>,
    /// The leadership of this replica; `None` without a Lease.
    pub(crate) leadership: Option<Leadership>,
    /// Since when objects are at fault.
    pub(crate) ledger: Arc<Ledger>,
    /// Whether Envoys can connect.
    pub(crate) reachable: Reachable,
    file: Option<PathBuf>,
    opened: Option<OpenedFolder>,
    not_opened: Option<NotOpened>,
}

/// The data folder.
pub(crate) struct DataFolder {
    /// The path.
    pub(crate) path: PathBuf,
    /// The identity of the opened folder; `None` if it is not checked.
    pub(crate) opened: Option<OpenedFolder>,
    /// The store in the folder, if it could not be opened.
    pub(crate) not_opened: Option<NotOpened>,
}

impl Watched {
    /// Reads the dates that an earlier run left in the data folder.
    pub(crate) fn open(
        folder: DataFolder,
        sources: Arc<Sources>,
        leadership: Option<Leadership>,
        reachable: Reachable,
    ) -> Self {
        let DataFolder { path, opened, not_opened } = folder;
        let file = path.join(FILE);
        let ledger = match read(&file) {
            Ok(ledger) => ledger,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "cannot read the start times of faults");
                Ledger::default()
            }
        };
        Self { sources, leadership, ledger: Arc::new(ledger), reachable, file: Some(file), opened, not_opened }
    }

    /// The reason why a later run will not find the state that this run stores. Checks the data folder.
    pub(crate) fn not_stored(&self) -> Option<String> {
        let not_opened = self.not_opened.as_ref().map(|store| store.message(Instant::now()));
        not_opened.or_else(|| self.opened.as_ref().and_then(OpenedFolder::problem))
    }

    /// Stores the dates. After an error they are kept for this run only.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_vec(&*self.ledger).map_err(std::io::Error::from);
        if let Err(error) = text.and_then(|text| write_private(file, &text)) {
            tracing::warn!(%error, file = %file.display(), "cannot save the start times of faults");
        }
    }

    /// Returns whether this replica leads, or is the only one.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.as_ref().is_none_or(Leadership::leads)
    }
}

fn read(file: &std::path::Path) -> anyhow::Result<Ledger> {
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Ledger::default()),
        metadata => {
            anyhow::ensure!(metadata?.len() <= FAULT_DATES_BYTES_MAX, "more than {FAULT_DATES_BYTES_MAX} bytes")
        }
    }
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::ledger::Present;
    use holdfast_check::time::Moment;

    use super::*;

    #[test]
    fn dates_are_there_after_a_restart_and_a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = || DataFolder { path: folder.path().to_owned(), opened: None, not_opened: None };
        let open = || Watched::open(path(), Arc::default(), None, Reachable::default());
        let mut watched = open();
        let present = Present { id: "a".into(), uid: "u".into(), generation: Some(1), since: None, refused: false };
        Arc::make_mut(&mut watched.ledger).observe([present], Moment(7));
        watched.save();
        assert_eq!(open().ledger.since("a"), Some(Moment(7)));
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(*open().ledger, Ledger::default());
    }
}
