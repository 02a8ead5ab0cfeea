//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod enforced;
mod guards;
mod never;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [enforced::stories(), never::stories()].concat()
}
