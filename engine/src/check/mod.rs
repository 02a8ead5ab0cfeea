//! What Envoy would refuse, or accept and then break on, found before Envoy sees it.
//!
//! Every function here looks at one value of an object (a regex, a header name, a certificate pair) and
//! answers whether Envoy can use it, with an error whose text is a sentence for the owner of that object.
//! Nothing here knows Kubernetes objects, Envoy resources, files, clocks or the network: plain values in,
//! `Result` out, so that translation may call it anywhere and a fuzzer may call it with anything.

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

pub use excerpt::Excerpt;
