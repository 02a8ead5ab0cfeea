//! The source of the artefacts: the repository, its version, its commit, and the time of all files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Marks a commit that files differ from.
const MODIFIED: &str = "-modified";

/// The source of the artefacts.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Top folder of the repository.
    pub(crate) root: PathBuf,
    pub(crate) version: &'static str,
    /// The commit, with `-modified` if files differ from it; none outside of a clone.
    pub(crate) commit: Option<String>,
    /// Time of all files, in seconds since 1970.
    pub(crate) epoch: u64,
}

impl Source {
    /// Reads the state of the repository that this program is built from.
    pub(crate) fn of_repository(epoch: Option<u64>) -> Result<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = own.ancestors().nth(2).context("the package is not in tests/dist")?.to_owned();
        let commit = git(&root, &["rev-parse", "HEAD"]).map(|commit| {
            let is_clean = git(&root, &["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
            if is_clean { commit } else { format!("{commit}{MODIFIED}") }
        });
        let of_commit = || git(&root, &["log", "-1", "--format=%ct"])?.parse().ok();
        let epoch = epoch.or_else(of_commit).context(
            "the time of the artefacts is unknown, because there is no commit here: set SOURCE_DATE_EPOCH to the \
             seconds since 1970",
        )?;
        Ok(Self { root, version: env!("CARGO_PKG_VERSION"), commit, epoch })
    }

    /// Checks that this is the source of a tag.
    pub(crate) fn check_tag(&self, tag: &str) -> Result<()> {
        let version = self.version;
        ensure!(tag == format!("v{version}"), "the tag {tag} is not v{version}, the version in Cargo.toml");
        let commit = self.commit.as_deref().unwrap_or_default();
        ensure!(
            !commit.is_empty() && !commit.ends_with(MODIFIED),
            "the tag {tag} names a commit, and files of this folder differ from it, or it is no clone: make the \
             artefacts in a new clone of the tag"
        );
        Ok(())
    }

    /// Returns the time of all files in the form of RFC 3339.
    pub(crate) fn time(&self) -> Result<String> {
        let seconds = i64::try_from(self.epoch).context("the time of the artefacts is out of range")?;
        Ok(OffsetDateTime::from_unix_timestamp(seconds)?.format(&Rfc3339)?)
    }

    /// Returns the content of a file of the repository.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.root.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// Returns the output of a git command without surrounding blanks; none if it fails.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
