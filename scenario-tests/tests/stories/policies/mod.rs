//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod conditions;
mod enforced;
mod guards;
mod login;
mod never;
mod processing;
mod values;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    let of_fields = [conditions::stories(), values::stories(), processing::stories(), login::stories()].concat();
    [enforced::stories(), never::stories(), of_fields].concat()
}
