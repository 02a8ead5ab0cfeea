//! Stories: manifests go in, real requests go through a real Envoy, and what comes out is what was meant.

mod echo;
mod filters;
mod gateways;
mod matching;
mod references;
mod replacement;
mod rewrites;
mod weights;

use std::process::ExitCode;

fn main() -> ExitCode {
    let themes = [
        echo::stories(),
        gateways::stories(),
        filters::stories(),
        matching::stories(),
        references::stories(),
        replacement::stories(),
        rewrites::stories(),
        weights::stories(),
    ];
    holdfast_scenario_tests::runner::run(themes.into_iter().flatten().collect())
}
