//! Shared libraries of images: what a program needs, taken from one folder that the command line names.
//!
//! The folder is laid out as Debian does it: an unpacked package, a cross-compiler's libraries, or a whole system. The
//! loader gets the path that programs name; libraries get the folder that this loader searches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::elf::ProgramNeeds;
use crate::files::Files;
use crate::platform::Platform;

/// Path of the licence of the libraries in an image.
const LICENSE: &str = "usr/share/licenses/glibc/copyright";

/// A folder of libraries for a platform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LibraryFolder<'a> {
    pub(crate) root: &'a Path,
    pub(crate) platform: Platform,
}

impl LibraryFolder<'_> {
    /// Returns the loader and all libraries that a program needs, and those that these need; with their licence, if it
    /// is in the folder.
    pub(crate) fn of(self, needs: &ProgramNeeds) -> Result<Files> {
        let mut files = Files::default();
        let mut open: Vec<String> = needs.libraries.clone();
        let mut seen = BTreeSet::new();
        if let Some(loader) = &needs.loader {
            let name = loader.rsplit('/').next().unwrap_or(loader);
            let (_, bytes) = self.find(name)?;
            files.add_program(loader.trim_start_matches('/'), bytes);
            seen.insert(name.to_owned());
        }
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let (path, bytes) = self.find(&name)?;
            open.extend(ProgramNeeds::of(&path, &bytes, self.platform)?.libraries);
            files.add_program(&format!("lib/{}/{name}", self.platform.gnu()), bytes);
        }
        if let Some(license) = self.license() {
            files.add(LICENSE, license);
        }
        Ok(files)
    }

    fn find(self, name: &str) -> Result<(PathBuf, Vec<u8>)> {
        let gnu = self.platform.gnu();
        let folders = [
            format!("lib/{gnu}"),
            format!("usr/lib/{gnu}"),
            format!("usr/{gnu}/lib"),
            "lib64".into(),
            "usr/lib64".into(),
            "lib".into(),
            "usr/lib".into(),
        ];
        for folder in &folders {
            let path = self.root.join(folder).join(name);
            if path.is_file() {
                let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                return Ok((path, bytes));
            }
        }
        bail!(
            "{name} is missing in {} ({}); set --libraries {}=DIR to a folder that has it, such as an unpacked package \
             libc6 of Debian",
            self.root.display(),
            folders.join(", "),
            self.platform.name()
        )
    }

    /// Returns the copyright file of the C library's package.
    fn license(self) -> Option<Vec<u8>> {
        let entries = fs::read_dir(self.root.join("usr/share/doc")).ok()?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_of_libc = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name == "libc6" || name == format!("libc6-{}-cross", self.platform.name())
        };
        let mut found: Vec<PathBuf> = names.filter(is_of_libc).collect();
        // A machine for several platforms has both; the cross-compiler's is the one of the other platform.
        found.sort();
        if Platform::of_this_machine() != Some(self.platform) {
            found.reverse();
        }
        found.iter().find_map(|folder| fs::read(folder.join("copyright")).ok())
    }
}
