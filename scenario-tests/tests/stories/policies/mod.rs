//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod asking;
mod enforced;
mod extensions;
mod guards;
mod login;
mod never;
mod processing;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [
        asking::stories(),
        enforced::stories(),
        extensions::stories(),
        never::stories(),
        processing::stories(),
        login::stories(),
    ]
    .concat()
}
