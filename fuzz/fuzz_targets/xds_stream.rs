//! An xDS stream: requests, answers, false answers and changes in any order, against the model of an Envoy.
//!
//! The model and its properties are in `xds/tests/xds/model.rs`; the first byte selects the variant of the protocol.

#![no_main]

use holdfast_xds::connection::Protocol;
use libfuzzer_sys::fuzz_target;

#[path = "../../xds/tests/xds/model.rs"]
mod model;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let protocol = if first % 2 == 0 { Protocol::Delta } else { Protocol::Sotw };
    let mut rest = rest.iter().copied();
    model::play(protocol, || rest.next());
});
