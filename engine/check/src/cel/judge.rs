//! Detection of conditions that Envoy would refuse, or that are never true.

use super::When;
use super::build::{AND, Flawed, NOT, OR};
use super::fault::CelProblem;
use super::known::{
    ATTRIBUTES, CONDITIONS, FUNCTIONS, LATER, METHODS, REGEX_PROGRAM_MAX, REGEXES, TRUE_OR_FALSE, TYPES,
};
use super::tree::{Constant, Expr, ExprNode};
use crate::Excerpt;
use crate::meter::Meter;
use crate::re2::{Limits, Regexes};

/// Returns the problem of a condition that is evaluated at this time.
pub(super) fn judge(expr: &Expr, when: When, regexes: &Regexes, meter: &Meter) -> Flawed<()> {
    // Each node is visited twice.
    meter.spend(expr.steps.saturating_mul(2))?;
    known(expr, when, regexes)?;
    condition(expr)
}

/// Checks that all names and functions are known. The recursion is as deep as trees may be.
fn known(expr: &Expr, when: When, regexes: &Regexes) -> Flawed<()> {
    let known = |expr: &Expr| known(expr, when, regexes);
    match &expr.kind {
        ExprNode::Constant(_) => Ok(()),
        ExprNode::Name(name) if when == When::Response && LATER.contains(&&**name) => Ok(()),
        ExprNode::Name(name) => named(expr.at, name),
        ExprNode::Field { of, name, .. } => {
            known(of)?;
            field(expr.at, of, name)
        }
        ExprNode::List(entries) => entries.iter().try_for_each(known),
        ExprNode::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).try_for_each(known),
        ExprNode::Call { function, on, arguments } => {
            arguments.iter().try_for_each(known)?;
            // There, `re` is a part of the name of a function.
            let of_regexes = on.as_ref().is_some_and(|on| matches!(&on.kind, ExprNode::Name(name) if &**name == "re"));
            match on {
                Some(on) if !of_regexes => known(on)?,
                _ => {}
            }
            call(expr.at, function, on.as_deref(), arguments, of_regexes)?;
            match (&**function, arguments.last()) {
                ("matches", Some(Expr { kind: ExprNode::Constant(Constant::Text(pattern)), at, .. })) => {
                    regex(*at, pattern, regexes)
                }
                _ => Ok(()),
            }
        }
    }
}

fn named(at: usize, name: &str) -> Flawed<()> {
    if LATER.contains(&name) {
        return Err((at, CelProblem::Unserved("this attribute is not available yet when the condition is evaluated")));
    }
    if TYPES.contains(&name) || ATTRIBUTES.iter().any(|(attribute, _)| *attribute == name) {
        return Ok(());
    }
    let names = ATTRIBUTES.map(|(attribute, _)| attribute).join(", ");
    Err((at, CelProblem::Unknown { name: Excerpt::new(name), hint: format!("; the attributes are {names}") }))
}

/// Returns the attribute that a name refers to, with its fields.
fn attribute(expr: &Expr) -> Option<(&'static str, &'static [&'static str])> {
    let ExprNode::Name(name) = &expr.kind else { return None };
    ATTRIBUTES.into_iter().find(|(attribute, _)| *attribute == &**name)
}

fn field(at: usize, of: &Expr, name: &str) -> Flawed<()> {
    match attribute(of) {
        Some((attribute, fields)) if !fields.is_empty() && !fields.contains(&name) => {
            let name = Excerpt::new(&format!("{attribute}.{name}"));
            Err((at, CelProblem::Unknown { name, hint: format!("; the attributes are {}", fields.join(", ")) }))
        }
        _ => Ok(()),
    }
}

fn call(at: usize, function: &str, on: Option<&Expr>, arguments: &[Expr], of_regexes: bool) -> Flawed<()> {
    let given = arguments.len();
    let is_operator = !function.starts_with(|c: char| c.is_ascii_alphabetic());
    let fits = match on {
        None if is_operator => true,
        None => FUNCTIONS.contains(&(function, given)),
        Some(_) if of_regexes => REGEXES.contains(&(function, given)),
        Some(_) => METHODS.iter().any(|(known, takes)| *known == function && takes.contains(&given)),
    };
    if function == "string" && on.is_none() {
        return Err((at, CelProblem::Unserved("Envoy does not support the conversion of values to strings")));
    }
    if !fits {
        let prefix = if of_regexes { "re." } else { "" };
        let count = match given {
            0 => "without arguments".to_owned(),
            1 => "with 1 argument".to_owned(),
            _ => format!("with {given} arguments"),
        };
        let form = if on.is_some() && !of_regexes { format!("as a method {count}") } else { count };
        return Err((at, CelProblem::Function { name: Excerpt::new(&format!("{prefix}{function}")), form }));
    }
    let joins = |part: &Expr| matches!(part.kind, ExprNode::Constant(Constant::Text(_) | Constant::Bytes(_)));
    if function == "_+_" && arguments.iter().any(|part| joins(part) || matches!(part.kind, ExprNode::List(_))) {
        return Err((at, CelProblem::Unserved("Envoy does not support the concatenation of strings or lists")));
    }
    Ok(())
}

/// Checks a regex as Envoy compiles it for CEL: with UTF-8 and a smaller limit. CEL accepts an empty regex.
fn regex(at: usize, pattern: &str, regexes: &Regexes) -> Flawed<()> {
    if pattern.is_empty() {
        return Ok(());
    }
    let limits = Limits { program_size: REGEX_PROGRAM_MAX };
    regexes.check_utf8(pattern, limits).map(|_| ()).map_err(|fault| (at, CelProblem::Regex(fault)))
}

/// Checks that an expression can be true or false, and so can all operands of logical operators.
fn condition(expr: &Expr) -> Flawed<()> {
    match expr.operator() {
        Some((OR | AND | NOT | "_?_:_", parts)) => parts.iter().try_for_each(condition),
        _ if may_be_condition(expr) => Ok(()),
        _ => Err((expr.at, CelProblem::NoCondition)),
    }
}

fn may_be_condition(expr: &Expr) -> bool {
    match &expr.kind {
        ExprNode::Constant(constant) => matches!(constant, Constant::Bool(_)),
        ExprNode::Name(_) | ExprNode::List(_) | ExprNode::Map(_) => false,
        ExprNode::Field { only_test: true, .. } => true,
        ExprNode::Field { of, name, .. } => match attribute(of) {
            Some((attribute, fields)) if !fields.is_empty() => (attribute, &**name) == TRUE_OR_FALSE,
            _ => true,
        },
        ExprNode::Call { function, .. } => match &**function {
            "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" => false,
            name => !name.starts_with(|c: char| c.is_ascii_alphabetic()) || CONDITIONS.contains(&name),
        },
    }
}
