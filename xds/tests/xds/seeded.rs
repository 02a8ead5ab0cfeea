//! Tests with the model of `model.rs` and many seeds.

use holdfast_xds::connection::Protocol;

use crate::model::play;

/// Returns bytes that depend only on the seed.
fn bytes(seed: u64, count: usize) -> impl FnMut() -> Option<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut left = count;
    move || {
        left = left.checked_sub(1)?;
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 33) as u8)
    }
}

fn play_all(protocol: Protocol) {
    for seed in 0..600 {
        let count = 20 + (seed as usize * 7) % 1500;
        let played = std::panic::catch_unwind(|| play(protocol, bytes(seed, count)));
        assert!(played.is_ok(), "{protocol:?}, seed {seed}, {count} bytes");
    }
}

#[test]
fn a_delta_envoy_ends_with_what_it_should_have_whatever_happens() {
    play_all(Protocol::Delta);
}

#[test]
fn a_state_of_the_world_envoy_ends_with_what_it_should_have_whatever_happens() {
    play_all(Protocol::Sotw);
}
