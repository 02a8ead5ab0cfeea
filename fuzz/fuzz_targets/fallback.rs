//! The planner of fallbacks against its checker, in changing worlds, with correct and with spoilt plans.
//!
//! The checker objects to a plan of the planner only if requests moved between the rules of a route. After enforcement,
//! no objection remains, not even to a spoilt plan.
#![no_main]

use holdfast_fallback::checker::About;
use holdfast_test_support::plans::Plans;
use libfuzzer_sys::fuzz_target;

/// Maximum number of steps in one world.
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
