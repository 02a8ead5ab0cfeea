//! The planner of fallbacks against its checker, in worlds that change; and plans that are spoilt.
//!
//! Against the planner the checker has nothing to say but where requests moved between the rules of a route; of a plan
//! that is spoilt nothing wrong is left.
#![no_main]

use holdfast_engine::fallback::checker::About;
use holdfast_engine::testing::plans::Plans;
use libfuzzer_sys::fuzz_target;

/// What happens in one world.
const STEPS: usize = 24;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.iter().copied();
    let mut choose = |below: usize| bytes.next().map_or(0, |byte| usize::from(byte) % below.max(1));
    let mut plans = Plans::new(&mut choose);
    for _ in 0..STEPS.min(data.len() / 4) {
        plans.step(&mut choose);
        let mut fallback = plans.planned();
        for objection in plans.objections(&fallback) {
            let beyond = objection.about == About::Security && plans.has_moved(&fallback, &objection.node.key);
            assert!(beyond, "{objection}");
        }
        if choose(2) == 1 {
            plans.spoil(&mut fallback, &mut choose);
        }
        plans.enforce(&mut fallback);
        assert_eq!(plans.objections(&fallback), []);
    }
});
