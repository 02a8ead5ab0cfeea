//! CEL conditions: parsing, and the checks of Envoy for known functions and attributes.
//!
//! Envoy receives a condition as a tree, and refuses a whole RouteConfiguration because of one call of an unknown
//! function. So this module parses the text by the grammar of CEL into a tree, and reports what Envoy would refuse
//! (functions, macros that iterate over lists, messages, regexes), and conditions that Envoy would accept and that
//! would never be true (unknown attributes, conditions that are text or a number). No condition is evaluated. The
//! results were compared with Envoy 1.40.
//!
//! Envoy compiles a regex that is a constant with the configuration: for UTF-8, not for bytes as in routes, and with a
//! smaller limit. It compiles any other regex for each request.
//!
//! <https://github.com/google/cel-spec/blob/master/doc/langdef.md>
//! <https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes>

mod build;
mod fault;
mod judge;
mod known;
mod literal;
mod parse;
mod scan;
mod tree;

pub use build::{any_of, not};
pub use fault::{CelFault, CelProblem};
pub use tree::{Constant, Expr, ExprNode};

use super::meter::Meter;
use super::re2::Regexes;

/// Longest condition, in bytes; the CRD has the same limit in characters.
pub const TEXT_BYTES_MAX: usize = 16_384;
/// Deepest tree of a condition. The decoder of Envoy accepts 100 nested messages, and a node needs two.
pub const DEPTH_MAX: u16 = 32;
/// Deepest nesting of the text: parentheses do not need a node in the tree.
const NESTING_MAX: usize = 100;

/// The time at which a condition is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// At a request, before it is forwarded.
    Request,
    /// After the response, for access logs: the attributes of the response exist.
    Response,
}

/// Parses and checks a condition for requests, and returns its fault. Regexes in it are charged to the object of the
/// condition.
pub fn check(text: &str, regexes: &Regexes) -> Result<Expr, CelFault> {
    counted(text, regexes).0
}

/// Checks a condition for access logs. Envoy reads its text itself.
pub fn check_of_log(text: &str, regexes: &Regexes) -> Result<(), CelFault> {
    read(text, When::Response, regexes).0.map(|_| ())
}

/// Checks a condition like [`check`], and returns the number of steps without those of regexes: at most
/// [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX) for each byte.
pub fn counted(text: &str, regexes: &Regexes) -> (Result<Expr, CelFault>, usize) {
    read(text, When::Request, regexes)
}

fn read(text: &str, when: When, regexes: &Regexes) -> (Result<Expr, CelFault>, usize) {
    if text.len() > TEXT_BYTES_MAX {
        return (Err(CelFault::whole(CelProblem::Long { bytes: text.len() })), 1);
    }
    let meter = Meter::linear(text);
    let read = parse::parse(text, &meter).and_then(|expr| judge::judge(&expr, when, regexes, &meter).map(|()| expr));
    (read.map_err(|(at, problem)| CelFault::new(text, at, problem)), meter.spent())
}

#[cfg(test)]
mod tests;
