//! Faults of CEL conditions, with their position.

use crate::Excerpt;
use crate::meter::OutOfSteps;
use crate::re2::RegexFault;

/// A fault of a condition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct CelFault {
    place: Place,
    /// The problem.
    pub problem: CelProblem,
}

/// Position in the text: line and column in characters, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
    /// Whether the text has only one line.
    single: bool,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place { column: 0, .. } => Ok(()),
            Place { column, single: true, .. } => write!(f, "column {column}: "),
            Place { line, column, .. } => write!(f, "line {line}, column {column}: "),
        }
    }
}

/// The problem of a [`CelFault`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CelProblem {
    /// The condition is empty.
    #[error("the condition is empty")]
    Empty,
    /// The text is too long.
    #[error("the condition has {bytes} bytes; it may have {}", super::TEXT_BYTES_MAX)]
    Long {
        /// Length of the condition.
        bytes: usize,
    },
    /// The nesting is too deep.
    #[error("this is nested too deeply")]
    Deep,
    /// A token where another token is expected.
    #[error("{found} where {wanted} is expected")]
    Expected {
        /// The token that was found.
        found: Excerpt,
        /// The expected token.
        wanted: &'static str,
    },
    /// The condition ends too early.
    #[error("the condition ends where {wanted} is expected")]
    Ended {
        /// The expected token.
        wanted: &'static str,
    },
    /// A character without a meaning in CEL.
    #[error("{found} is not valid in CEL")]
    Character {
        /// The character.
        found: Excerpt,
    },
    /// A reserved word.
    #[error("{word} is a reserved word")]
    Reserved {
        /// The word.
        word: Excerpt,
    },
    /// A text that does not end, or has a wrong escape sequence.
    #[error("{0}")]
    Literal(&'static str),
    /// A function that Envoy does not have.
    #[error("Envoy does not support the function {name} {form}")]
    Function {
        /// Name of the function.
        name: Excerpt,
        /// Form of the call.
        form: String,
    },
    /// A macro that iterates over a list.
    #[error("Envoy does not evaluate list macros: write each case of {name} separately, joined by || or &&")]
    Macro {
        /// Name of the macro.
        name: &'static str,
    },
    /// A feature of CEL that Envoy does not support.
    #[error("{0}")]
    Unserved(&'static str),
    /// An attribute that Envoy does not have.
    #[error("{name} is not an attribute that Envoy supports{hint}")]
    Unknown {
        /// Name of the attribute.
        name: Excerpt,
        /// The known attributes.
        hint: String,
    },
    /// An expression that is neither true nor false.
    #[error("this is neither true nor false, and therefore not a condition")]
    NoCondition,
    /// A regex that RE2 cannot parse.
    #[error("{0}")]
    Regex(RegexFault),
    /// The check takes too many steps.
    #[error("{0}")]
    Costly(OutOfSteps),
}

impl From<OutOfSteps> for (usize, CelProblem) {
    fn from(out: OutOfSteps) -> Self {
        (0, CelProblem::Costly(out))
    }
}

impl CelFault {
    /// Returns a fault at a byte of the text.
    pub(super) fn new(text: &str, at: usize, problem: CelProblem) -> Self {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let single = !text.trim_end().contains('\n');
        let place = Place {
            line: before.matches('\n').count().saturating_add(1),
            column: line.chars().count().saturating_add(1),
            single,
        };
        Self { place, problem }
    }

    /// Returns a fault of the whole text.
    pub(super) fn whole(problem: CelProblem) -> Self {
        Self { place: Place { line: 0, column: 0, single: true }, problem }
    }
}
