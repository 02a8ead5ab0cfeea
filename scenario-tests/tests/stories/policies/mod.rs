//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod asking;
mod back_ends;
mod enforced;
mod extensions;
pub(crate) mod guards;
mod login;
mod never;
mod processing;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [
        asking::stories(),
        back_ends::stories(),
        enforced::stories(),
        extensions::stories(),
        never::stories(),
        processing::stories(),
        login::stories(),
    ]
    .concat()
}
