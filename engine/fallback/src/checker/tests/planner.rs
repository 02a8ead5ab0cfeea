//! The planner against its audit: random changes, in which neither may be wrong; and random modifications of plans,
//! after which nothing wrong may be left.
//!
//! Seeded: a failure names its seed. `HOLDFAST_SEEDS=10000` tries that number of seeds.

use holdfast_test_objects::mutate::Choose;

use crate::checker::About;
use crate::testing::plans::Plans;

/// The default number of seeds.
const SEEDS: u64 = 60;
/// The number of changes for each seed.
const STEPS: usize = 12;

/// Returns a generator of numbers below its argument. The sequence depends only on the seed.
pub(super) fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % u64::try_from(below.max(1)).unwrap()).unwrap()
    }
}

fn seeds() -> u64 {
    std::env::var("HOLDFAST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

/// Returns the configuration before the first change.
type Begin = fn(&mut Choose<'_>) -> Plans;

#[test]
fn the_checker_has_nothing_against_the_planner() {
    nothing_against_the_planner(|choose| Plans::new(choose));
}

#[test]
fn nor_against_its_plans_for_httpproxies() {
    nothing_against_the_planner(|choose| Plans::of_proxies(choose));
}

#[test]
fn nor_against_its_plans_for_policies() {
    nothing_against_the_planner(|choose| Plans::of_policies(choose));
}

fn nothing_against_the_planner(begin: Begin) {
    let (mut versions, mut closed, mut moved) = (0, 0, 0);
    for seed in 1..=seeds() {
        let mut choose = choices(seed);
        let mut plans = begin(&mut choose);
        let mut has_moved = false;
        for step in 0..STEPS {
            plans.step(&mut choose);
            let planned = plans.planned();
            for objection in plans.objections(&planned) {
                // The planner compares protection rule by rule; the audit also checks requests that have moved to
                // another rule.
                let beyond = objection.about == About::Security && plans.has_moved(&planned, &objection.node.key);
                assert!(beyond, "seed {seed}, step {step}: {objection}");
                has_moved = true;
            }
            let altered = planned.altered();
            versions += altered.0;
            closed += altered.1;
        }
        moved += u64::from(has_moved);
    }
    // Without broken objects, the test would prove nothing.
    let few = usize::try_from(seeds()).unwrap() / 2;
    assert!(versions > few && closed > few, "{versions} objects in another version, {closed} with closed units");
    assert!(moved * 10 < seeds(), "in {moved} of {} worlds the planner let requests move", seeds());
}

#[test]
fn of_a_spoilt_plan_nothing_wrong_is_left() {
    nothing_wrong_is_left(|choose| Plans::new(choose));
}

#[test]
fn nor_of_one_for_httpproxies() {
    nothing_wrong_is_left(|choose| Plans::of_proxies(choose));
}

#[test]
fn nor_of_one_for_policies() {
    nothing_wrong_is_left(|choose| Plans::of_policies(choose));
}

fn nothing_wrong_is_left(begin: Begin) {
    let mut wrong = 0;
    for seed in 1..=seeds() {
        let mut choose = choices(seed);
        let mut plans = begin(&mut choose);
        for step in 0..STEPS {
            plans.step(&mut choose);
            let mut spoilt = plans.planned();
            plans.spoil(&mut spoilt, &mut choose);
            wrong += plans.objections(&spoilt).len();
            plans.enforce(&mut spoilt);
            let left: Vec<String> = plans.objections(&spoilt).iter().map(ToString::to_string).collect();
            assert_eq!(left, Vec::<String>::new(), "seed {seed}, step {step}");
        }
    }
    assert!(wrong > usize::try_from(seeds()).unwrap(), "{wrong} objections");
}
