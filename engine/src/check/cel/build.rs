//! Trees are put together here, so that none becomes too deep.

use std::sync::Arc;

use super::DEPTH_MAX;
use super::fault::CelProblem;
use super::tree::{Expr, Kind};

/// The operator that is true where one of two is.
pub(super) const OR: &str = "_||_";
/// The operator that is true where both are.
pub(super) const AND: &str = "_&&_";
/// The operator that turns a condition round.
pub(super) const NOT: &str = "!_";

/// What is wrong, with the byte where it begins.
pub(super) type Flawed<T> = Result<T, (usize, CelProblem)>;

/// A step; refused where the tree becomes too deep.
pub(super) fn step(at: usize, kind: Kind) -> Flawed<Expr> {
    let expr = measured(at, kind);
    if expr.depth > DEPTH_MAX { Err((at, CelProblem::Deep)) } else { Ok(expr) }
}

fn measured(at: usize, kind: Kind) -> Expr {
    // A map has a message more than others between it and what is in it.
    let own = if matches!(kind, Kind::Map(_)) { 2 } else { 1 };
    let (mut depth, mut steps) = (0u16, 1usize);
    let mut take = |below: &Expr| {
        depth = depth.max(below.depth);
        steps = steps.saturating_add(below.steps);
    };
    match &kind {
        Kind::Name(_) | Kind::Constant(_) => {}
        Kind::Field { of, .. } => take(of),
        Kind::Call { on, arguments, .. } => on.iter().map(|on| &**on).chain(arguments).for_each(take),
        Kind::List(entries) => entries.iter().for_each(take),
        Kind::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(take),
    }
    Expr { kind, at, depth: depth.saturating_add(own), steps }
}

/// A call of an operator.
pub(super) fn operator(at: usize, function: &str, arguments: Vec<Expr>) -> Flawed<Expr> {
    step(at, Kind::Call { function: function.into(), on: None, arguments })
}

/// Many conditions joined by one operator, halves within halves: it makes no difference to what comes out, and the tree
/// stays flat. `None` where there is none. Each condition is moved once.
pub(super) fn joined(function: &Arc<str>, all: Vec<Expr>) -> Option<Expr> {
    let count = all.len();
    halves(function, &mut all.into_iter(), count)
}

/// So many of the conditions that are left.
fn halves(function: &Arc<str>, left: &mut std::vec::IntoIter<Expr>, count: usize) -> Option<Expr> {
    if count <= 1 {
        return left.next();
    }
    let first = halves(function, left, count / 2)?;
    let second = halves(function, left, count - count / 2)?;
    let at = first.at;
    Some(measured(at, Kind::Call { function: function.clone(), on: None, arguments: vec![first, second] }))
}

/// What is true where one of them is; `None` where there is none.
pub fn any_of(conditions: Vec<Expr>) -> Option<Expr> {
    joined(&OR.into(), conditions)
}

/// What is true where a condition is false. Where that has no answer this has none either.
pub fn not(condition: Expr) -> Expr {
    measured(condition.at, Kind::Call { function: NOT.into(), on: None, arguments: vec![condition] })
}
