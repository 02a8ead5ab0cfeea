//! Conditions in CEL, judged as Envoy judges them: can they be read, and does Envoy know what they use?
//!
//! Envoy takes a condition as a tree, and refuses a whole RouteConfiguration for one call of a function that it does not
//! know. So this reads the text of CEL's grammar into a tree, and says what Envoy would refuse (functions, macros that
//! walk over lists, messages, regexes), and what it would take and never find true (attributes that nobody fills in,
//! conditions that are text or a number). Nothing is evaluated here. Verdicts were compared with Envoy 1.40.
//!
//! One verdict is left to Envoy: how large a regex is to it, which reads UTF-8 here and not bytes as in routes.
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
pub use tree::{Constant, Expr, Kind};

use super::meter::Meter;
use super::re2::Regexes;

/// Longest condition, in bytes; the CRD allows as many characters.
pub const TEXT_BYTES_MAX: usize = 16_384;
/// Deepest tree of a condition. Envoy's decoder ends at 100 messages within each other, and a step takes two.
pub const DEPTH_MAX: u16 = 32;
/// Deepest nesting of the text: parentheses take no step in a tree.
const NESTING_MAX: usize = 100;

/// Parses and checks a condition, and returns its fault. Regexes in it are charged to the object of the condition.
pub fn check(text: &str, regexes: &Regexes) -> Result<Expr, CelFault> {
    counted(text, regexes).0
}

/// The same, and how many steps it took beside those of regexes: no more than
/// [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX) for each byte.
pub fn counted(text: &str, regexes: &Regexes) -> (Result<Expr, CelFault>, usize) {
    if text.len() > TEXT_BYTES_MAX {
        return (Err(CelFault::whole(CelProblem::Long { bytes: text.len() })), 1);
    }
    let meter = Meter::linear(text);
    let read = parse::parse(text, &meter).and_then(|expr| judge::judge(&expr, regexes, &meter).map(|()| expr));
    (read.map_err(|(at, problem)| CelFault::new(text, at, problem)), meter.spent())
}

#[cfg(test)]
mod tests;
