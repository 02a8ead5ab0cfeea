//! Policies of kgateway: protection is enforced at every level, and a target is closed where it cannot be protected.

mod backends;
mod called_by_name;
mod called_services;
mod conditions;
mod connections;
mod denied;
mod edits;
pub(crate) mod elsewhere;
mod enforced;
mod extensions;
pub(crate) mod guards;
mod higher;
mod login;
mod looked_up;
mod never;
mod processing;
mod replaced;
mod targets;
mod values;

use holdfast_scenario_tests::Story;

pub(crate) fn stories() -> Vec<Story> {
    let of_fields =
        [conditions::stories(), denied::stories(), values::stories(), processing::stories(), login::stories()].concat();
    let of_names = [looked_up::stories(), called_by_name::stories()].concat();
    let of_backends = [backends::stories(), elsewhere::stories(), of_names].concat();
    let of_others = [called_services::stories(), of_backends, connections::stories(), extensions::stories()].concat();
    let of_levels = [
        enforced::stories(),
        higher::stories(),
        replaced::stories(),
        never::stories(),
        edits::stories(),
        targets::stories(),
    ];
    let of_levels = of_levels.concat();
    [of_levels, of_fields, of_others].concat()
}
