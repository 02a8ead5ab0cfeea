//! Policies of kgateway's: what protects is enforced at every level, and closes what it cannot protect.

mod connections;
mod enforced;
mod guards;
mod login;
mod never;
mod processing;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    [connections::stories(), enforced::stories(), login::stories(), never::stories(), processing::stories()].concat()
}
