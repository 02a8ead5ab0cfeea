//! What a program of Linux states about itself: its processor, its loader, and the shared libraries that it needs.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};

use crate::platform::Platform;

/// What a program needs to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramNeeds {
    /// Path of the loader; none for a static program.
    pub(crate) loader: Option<String>,
    /// Names of shared libraries.
    pub(crate) libraries: Vec<String>,
}

impl ProgramNeeds {
    /// Returns the needs of a program or shared library, which must be one for the platform.
    pub(crate) fn of(path: &Path, bytes: &[u8], platform: Platform) -> Result<Self> {
        let shown = path.display();
        let file = ElfFile64::<Endianness>::parse(bytes).with_context(|| format!("{shown} is no program for Linux"))?;
        let endian = file.endian();
        let header: &FileHeader64<Endianness> = file.elf_header();
        let (machine, name) = (header.e_machine(endian), platform.name());
        ensure!(machine == platform.machine(), "{shown} is a program for another processor than {name}");
        let mut loader = None;
        for segment in file.elf_program_headers() {
            let found = segment.interpreter(endian, bytes).with_context(|| format!("{shown} is damaged"))?;
            loader = loader.or(found.map(|found| String::from_utf8_lossy(found).into_owned()));
        }
        let table = file.elf_dynamic_table().with_context(|| format!("{shown} is damaged"))?;
        let mut libraries = Vec::new();
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
            let library = table.string(entry).with_context(|| format!("{shown} is damaged"))?;
            libraries.push(String::from_utf8_lossy(library).into_owned());
        }
        Ok(Self { loader, libraries })
    }

    pub(crate) fn is_static(&self) -> bool {
        self.loader.is_none() && self.libraries.is_empty()
    }
}
