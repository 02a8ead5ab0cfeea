//! What is wrong with a condition, and where.

use crate::check::Excerpt;
use crate::check::meter::OutOfSteps;
use crate::check::re2::RegexFault;

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct CelFault {
    place: Place,
    /// What it is.
    pub problem: CelProblem,
}

/// Where in the text; counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
    /// Is there one line only?
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

/// See [`CelFault`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CelProblem {
    /// There is nothing.
    #[error("the condition is empty")]
    Empty,
    /// The text is too long.
    #[error("the condition has {bytes} bytes; it may have {}", super::TEXT_BYTES_MAX)]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// Something is nested too deeply.
    #[error("this is nested too deeply")]
    Deep,
    /// There is something else than what must be there.
    #[error("{found} stands where {wanted} must be")]
    Expected {
        /// What is there.
        found: Excerpt,
        /// What must be there.
        wanted: &'static str,
    },
    /// It ends too early.
    #[error("the condition ends where {wanted} must be")]
    Ended {
        /// What must be there.
        wanted: &'static str,
    },
    /// A character that means nothing.
    #[error("{found} means nothing in CEL")]
    Character {
        /// Which.
        found: Excerpt,
    },
    /// A word that may not be used.
    #[error("{word} is a reserved word")]
    Reserved {
        /// Which.
        word: Excerpt,
    },
    /// A text that does not end, or has a wrong escape.
    #[error("{0}")]
    Literal(&'static str),
    /// A function that Envoy does not know.
    #[error("Envoy knows no function {name} {form}")]
    Function {
        /// Its name.
        name: Excerpt,
        /// How it is called.
        form: String,
    },
    /// A macro that walks over a list.
    #[error("Envoy does not walk over lists: write what {name} says case by case, joined by || or &&")]
    Macro {
        /// Its name.
        name: &'static str,
    },
    /// Something that Envoy does not do.
    #[error("{0}")]
    Unserved(&'static str),
    /// An attribute that nobody fills in.
    #[error("{name} is nothing that Envoy knows of a request{hint}")]
    Unknown {
        /// Its name.
        name: Excerpt,
        /// What else is known.
        hint: String,
    },
    /// Something that is neither true nor false.
    #[error("this is never true or false, and so no condition")]
    NoCondition,
    /// A regex that RE2 cannot read.
    #[error("{0}")]
    Regex(RegexFault),
    /// Reading it takes too many steps.
    #[error("{0}")]
    Costly(OutOfSteps),
}

impl From<OutOfSteps> for (usize, CelProblem) {
    fn from(out: OutOfSteps) -> Self {
        (0, CelProblem::Costly(out))
    }
}

impl CelFault {
    /// A fault at a byte of the text.
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

    /// A fault of the whole text.
    pub(super) fn whole(problem: CelProblem) -> Self {
        Self { place: Place { line: 0, column: 0, single: true }, problem }
    }
}
