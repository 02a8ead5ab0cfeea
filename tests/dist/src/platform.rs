//! The platforms of the artefacts, with the names that Rust, OCI, GNU and ELF have for each of them.

use clap::ValueEnum;
use object::elf::{EM_AARCH64, EM_X86_64};
use oci_spec::image::Arch;

/// A platform, always with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Platform {
    /// x86-64
    Amd64,
    /// 64-bit Arm
    Arm64,
}

impl Platform {
    /// All platforms, in the order of artefacts.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the name in file names, on the command line and in images.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the platform that this program runs on, if artefacts are made for it.
    pub fn of_this_machine() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    pub(crate) fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Returns the target of static binaries.
    pub(crate) fn triple(self) -> String {
        format!("{}-unknown-linux-musl", self.processor())
    }

    /// Returns the name of the folders of libraries in Debian.
    pub(crate) fn gnu(self) -> String {
        format!("{}-linux-gnu", self.processor())
    }

    pub(crate) fn architecture(self) -> Arch {
        match self {
            Self::Amd64 => Arch::Amd64,
            Self::Arm64 => Arch::ARM64,
        }
    }

    pub(crate) fn machine(self) -> u16 {
        match self {
            Self::Amd64 => EM_X86_64,
            Self::Arm64 => EM_AARCH64,
        }
    }
}
