//! Checks for values that Envoy would refuse, or accept and then fail on, before they reach Envoy.
//!
//! Every function checks one value of an object (a regex, a header name, a certificate pair) for use in Envoy. The text
//! of an error is a sentence for the owner of the object. No function depends on Kubernetes objects, Envoy resources,
//! files, clocks or the network: the input is a plain value, the output a `Result`, so that translation may call the
//! function anywhere and a fuzzer may call it with any input.

pub mod address;
pub mod cel;
pub mod certificate;
pub mod duration;
mod excerpt;
pub mod format;
pub mod header;
pub mod host;
pub mod log_format;
pub mod meter;
pub mod number;
pub mod path;
pub mod ranges;
pub mod re2;
pub mod refused_text;
pub mod template;
#[cfg(test)]
mod tests;
pub mod time;
pub mod tls;

pub use excerpt::Excerpt;
