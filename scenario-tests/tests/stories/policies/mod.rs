//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod back_ends;
mod enforced;
mod guards;
mod login;
mod never;
mod processing;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [back_ends::stories(), enforced::stories(), never::stories(), processing::stories(), login::stories()].concat()
}
