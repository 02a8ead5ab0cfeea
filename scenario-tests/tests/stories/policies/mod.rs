//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod conditions;
mod enforced;
mod guards;
mod never;
mod values;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [enforced::stories(), conditions::stories(), values::stories(), never::stories()].concat()
}
