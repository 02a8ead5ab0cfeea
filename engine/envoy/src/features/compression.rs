//! Compression of response bodies, decompression of request bodies.

use envoy_types::pb::envoy::config::core::v3::{RuntimeFeatureFlag, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::compression::brotli::compressor::v3::Brotli;
use envoy_types::pb::envoy::extensions::compression::brotli::decompressor::v3::Brotli as UnBrotli;
use envoy_types::pb::envoy::extensions::compression::gzip::compressor::v3::Gzip;
use envoy_types::pb::envoy::extensions::compression::gzip::decompressor::v3::Gzip as UnGzip;
use envoy_types::pb::envoy::extensions::compression::zstd::compressor::v3::Zstd;
use envoy_types::pb::envoy::extensions::compression::zstd::decompressor::v3::Zstd as UnZstd;
use envoy_types::pb::envoy::extensions::filters::http::compressor::v3::Compressor;
use envoy_types::pb::envoy::extensions::filters::http::decompressor::v3::Decompressor;
use envoy_types::pb::envoy::extensions::filters::http::decompressor::v3::decompressor::{
    CommonDirectionConfig, ResponseDirectionConfig,
};
use envoy_types::pb::google::protobuf::BoolValue;

use crate::encode::any;

/// Runtime key that could enable decompression of responses; Holdfast never sets it.
const RUNTIME_KEY: &str = "holdfast.expand_responses";

/// A compression algorithm.
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
    /// All algorithms.
    pub const ALL: [Library; 3] = [Library::Gzip, Library::Brotli, Library::Zstd];

    /// Parses the name that policies use.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "Gzip" => Some(Library::Gzip),
            "Brotli" => Some(Library::Brotli),
            "Zstd" => Some(Library::Zstd),
            _ => None,
        }
    }
}

/// Returns the compressor filter.
pub(crate) fn compressor(library: Library) -> Compressor {
    let (name, config) = match library {
        Library::Gzip => ("gzip", any(&Gzip::default())),
        Library::Brotli => ("brotli", any(&Brotli::default())),
        Library::Zstd => ("zstd", any(&Zstd::default())),
    };
    let library = TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
    Compressor { compressor_library: Some(library), ..Default::default() }
}

/// Returns the decompressor filter.
pub(crate) fn decompressor(library: Library) -> Decompressor {
    let (name, config) = match library {
        Library::Gzip => ("gzip", any(&UnGzip::default())),
        Library::Brotli => ("brotli", any(&UnBrotli::default())),
        Library::Zstd => ("zstd", any(&UnZstd::default())),
    };
    let library = TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
    // Responses are not decompressed: otherwise the output of the compressor would be decompressed again.
    let never = RuntimeFeatureFlag { default_value: Some(BoolValue { value: false }), runtime_key: RUNTIME_KEY.into() };
    let responses = ResponseDirectionConfig {
        common_config: Some(CommonDirectionConfig { enabled: Some(never), ..Default::default() }),
    };
    Decompressor {
        decompressor_library: Some(library),
        response_direction_config: Some(responses),
        ..Default::default()
    }
}
