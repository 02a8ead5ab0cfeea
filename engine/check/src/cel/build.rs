//! Construction of CEL expression trees with a depth limit.

use std::sync::Arc;

use super::DEPTH_MAX;
use super::fault::CelProblem;
use super::tree::{Expr, ExprNode};

/// CEL operator for "or".
pub(super) const OR: &str = "_||_";
/// CEL operator for "and".
pub(super) const AND: &str = "_&&_";
/// CEL operator for "not".
pub(super) const NOT: &str = "!_";

/// A result; the error has the byte where the problem begins.
pub(super) type Flawed<T> = Result<T, (usize, CelProblem)>;

/// Returns a node; fails where the tree becomes too deep.
pub(super) fn step(at: usize, kind: ExprNode) -> Flawed<Expr> {
    let expr = measured(at, kind);
    if expr.depth > DEPTH_MAX { Err((at, CelProblem::Deep)) } else { Ok(expr) }
}

fn measured(at: usize, kind: ExprNode) -> Expr {
    // A map has one more protobuf message than other nodes between itself and its entries.
    let own = if matches!(kind, ExprNode::Map(_)) { 2 } else { 1 };
    let (mut depth, mut steps) = (0u16, 1usize);
    let mut take = |below: &Expr| {
        depth = depth.max(below.depth);
        steps = steps.saturating_add(below.steps);
    };
    match &kind {
        ExprNode::Name(_) | ExprNode::Constant(_) => {}
        ExprNode::Field { of, .. } => take(of),
        ExprNode::Call { on, arguments, .. } => on.iter().map(|on| &**on).chain(arguments).for_each(take),
        ExprNode::List(entries) => entries.iter().for_each(take),
        ExprNode::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(take),
    }
    Expr { kind, at, depth: depth.saturating_add(own), steps }
}

/// Returns a call of an operator.
pub(super) fn operator(at: usize, function: &str, arguments: Vec<Expr>) -> Flawed<Expr> {
    step(at, ExprNode::Call { function: function.into(), on: None, arguments })
}

/// Joins many conditions with one operator into a balanced tree: the result is equal, and the tree stays flat. Returns
/// `None` where there is no condition. Each condition is moved once.
pub(super) fn joined(function: &Arc<str>, all: Vec<Expr>) -> Option<Expr> {
    let count = all.len();
    halves(function, &mut all.into_iter(), count)
}

/// Joins the next `count` conditions.
fn halves(function: &Arc<str>, left: &mut std::vec::IntoIter<Expr>, count: usize) -> Option<Expr> {
    if count <= 1 {
        return left.next();
    }
    let first = halves(function, left, count / 2)?;
    let second = halves(function, left, count - count / 2)?;
    let at = first.at;
    Some(measured(at, ExprNode::Call { function: function.clone(), on: None, arguments: vec![first, second] }))
}

/// Returns a condition that is true where at least one of the conditions is true; `None` where there is no condition.
pub fn any_of(conditions: Vec<Expr>) -> Option<Expr> {
    joined(&OR.into(), conditions)
}

/// Returns a condition that is true where `condition` is false. Where `condition` has no result, neither does the
/// negation.
pub fn not(condition: Expr) -> Expr {
    measured(condition.at, ExprNode::Call { function: NOT.into(), on: None, arguments: vec![condition] })
}
