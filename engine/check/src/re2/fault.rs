//! Reasons for refusing a regex, with the messages of RE2 where RE2 refuses it.

use super::super::Excerpt;
use super::super::meter::OutOfSteps;
use super::encoding::Encoding;
use super::{DEPTH_MAX, OBJECT_STEPS_MAX, PATTERN_BYTES_MAX, STEPS_MAX};

/// Reason why a regex cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegexFault {
    /// RE2 cannot parse the regex.
    #[error("invalid regex: {problem}: {at}")]
    Syntax {
        /// The error.
        problem: SyntaxProblem,
        /// The invalid part.
        at: Excerpt,
    },
    /// The regex is empty: RE2 would accept it, the configuration of Envoy does not.
    #[error("the regex is empty; write .* for any text")]
    Empty,
    /// The regex is longer than [`PATTERN_BYTES_MAX`].
    #[error("the regex has {bytes} bytes; at most {PATTERN_BYTES_MAX} are allowed")]
    Long {
        /// Length of the regex.
        bytes: usize,
    },
    /// The regex is nested deeper than [`DEPTH_MAX`].
    #[error("the regex is nested too deeply; at most {DEPTH_MAX} levels of groups and operators are allowed")]
    Deep,
    /// The compiled program is too large for Envoy.
    #[error(
        "the regex is too large: its compiled program has {size} instructions; at most {limit} are allowed; use smaller repetition counts or classes"
    )]
    ProgramSize {
        /// Size of the program.
        size: u32,
        /// The limit.
        limit: u32,
    },
    /// The compiled program is so large that its size was not computed.
    #[error(
        "the regex is too large: its compiled program has at least {least} instructions; at most {limit} are allowed; use smaller repetition counts or classes"
    )]
    Huge {
        /// Lower bound of the size.
        least: u64,
        /// The limit.
        limit: u32,
    },
    /// The check takes more than [`STEPS_MAX`] steps.
    #[error(
        "the regex is too complex: checking it takes more than {STEPS_MAX} steps; use fewer repetitions and alternatives within each other"
    )]
    Costly,
    /// The regexes before this one used all of [`OBJECT_STEPS_MAX`].
    #[error(
        "the regular expressions of this object are too complex: checking those before this one took {OBJECT_STEPS_MAX} steps, and no more are allowed; use simpler or fewer ones, or several objects"
    )]
    Together,
}

impl From<OutOfSteps> for RegexFault {
    fn from(_: OutOfSteps) -> Self {
        Self::Costly
    }
}

/// Syntax error that RE2 reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum SyntaxProblem {
    #[error("invalid escape sequence")]
    Escape,
    #[error("invalid character class range")]
    ClassRange,
    #[error("missing ]")]
    MissingBracket,
    #[error("missing )")]
    MissingParenthesis,
    #[error("unexpected )")]
    UnexpectedParenthesis,
    #[error("trailing \\")]
    TrailingBackslash,
    #[error("no argument for repetition operator")]
    RepetitionArgument,
    #[error("invalid repetition size")]
    RepetitionSize,
    #[error("bad repetition operator")]
    RepetitionOperator,
    #[error("invalid perl operator")]
    PerlOperator,
    #[error("invalid named capture group")]
    CaptureName,
}

impl SyntaxProblem {
    /// Returns the fault at this part of the regex.
    pub(super) fn at(self, part: &str, encoding: Encoding) -> RegexFault {
        RegexFault::Syntax { problem: self, at: Excerpt::new(&encoding.written(part)) }
    }
}

/// Reason why the replacement of a regex rewrite cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubstitutionFault {
    /// A backslash that is not followed by a digit or a backslash.
    #[error("in the substitution, '\\' must be followed by a digit (a group of the regex) or by another '\\'")]
    Backslash,
    /// A group that the regex does not have.
    #[error(
        "the substitution refers to group \\{group}, but the regex has only {captures}; the rewrite would be skipped"
    )]
    Group {
        /// Number of the group.
        group: u32,
        /// Number of groups in the regex.
        captures: u32,
    },
}
