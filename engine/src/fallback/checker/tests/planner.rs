//! The planner against its checker: worlds that change at random, in which neither may be wrong.
//!
//! Seeded: a failure names its seed. `HOLDFAST_SEEDS=10000` tries more of them.

use crate::testing::plans::Plans;

/// Seeds where nothing else is said.
const SEEDS: u64 = 300;
/// What happens in each world.
const STEPS: usize = 12;

/// Numbers below what is asked for, the same for the same seed.
fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % u64::try_from(below.max(1)).unwrap()).unwrap()
    }
}

#[test]
fn the_checker_has_nothing_against_the_planner() {
    let seeds = std::env::var("HOLDFAST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let (mut versions, mut closed) = (0, 0);
    for seed in 1..=seeds {
        let mut choose = choices(seed);
        let mut plans = Plans::new(&mut choose);
        for step in 0..STEPS {
            plans.step(&mut choose);
            assert_eq!(plans.objections(), Vec::<String>::new(), "seed {seed}, step {step}");
            let altered = plans.altered();
            versions += altered.0;
            closed += altered.1;
        }
    }
    // Worlds in which nothing is broken would show nothing.
    let few = usize::try_from(seeds).unwrap() / 2;
    assert!(versions > few && closed > few, "{versions} objects in another version, {closed} with closed units");
}
