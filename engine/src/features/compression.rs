//! Bodies of responses are compressed, those of requests expanded.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::compression::brotli::compressor::v3::Brotli;
use envoy_types::pb::envoy::extensions::compression::brotli::decompressor::v3::Brotli as UnBrotli;
use envoy_types::pb::envoy::extensions::compression::gzip::compressor::v3::Gzip;
use envoy_types::pb::envoy::extensions::compression::gzip::decompressor::v3::Gzip as UnGzip;
use envoy_types::pb::envoy::extensions::compression::zstd::compressor::v3::Zstd;
use envoy_types::pb::envoy::extensions::compression::zstd::decompressor::v3::Zstd as UnZstd;
use envoy_types::pb::envoy::extensions::filters::http::compressor::v3::Compressor;
use envoy_types::pb::envoy::extensions::filters::http::decompressor::v3::Decompressor;

use crate::encode::any;

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Library {
    /// gzip.
    Gzip,
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstd,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 3] = [Library::Gzip, Library::Brotli, Library::Zstd];

    /// By the name that policies have for it.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "Gzip" => Some(Library::Gzip),
            "Brotli" => Some(Library::Brotli),
            "Zstd" => Some(Library::Zstd),
            _ => None,
        }
    }
}

/// The filter that compresses.
pub(crate) fn compressor(library: Library) -> Compressor {
    let (name, config) = match library {
        Library::Gzip => ("gzip", any(&Gzip::default())),
        Library::Brotli => ("brotli", any(&Brotli::default())),
        Library::Zstd => ("zstd", any(&Zstd::default())),
    };
    let library = TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
    Compressor { compressor_library: Some(library), ..Default::default() }
}

/// The filter that expands.
pub(crate) fn decompressor(library: Library) -> Decompressor {
    let (name, config) = match library {
        Library::Gzip => ("gzip", any(&UnGzip::default())),
        Library::Brotli => ("brotli", any(&UnBrotli::default())),
        Library::Zstd => ("zstd", any(&UnZstd::default())),
    };
    let library = TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
    Decompressor { decompressor_library: Some(library), ..Default::default() }
}
