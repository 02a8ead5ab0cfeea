//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod enforced;
mod guards;
mod higher;
mod login;
mod never;
mod processing;
mod replaced;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [
        enforced::stories(),
        higher::stories(),
        login::stories(),
        never::stories(),
        processing::stories(),
        replaced::stories(),
    ]
    .concat()
}
