//! Regexes, judged as RE2 (Envoy's engine) judges them: may it read them, and how large a program do they make?
//!
//! Envoy refuses a whole RouteConfiguration for one regex that RE2 cannot read, or whose program is larger than
//! `re2.max_program_size.error_level`. Rust's own `regex` reads another language. So this is RE2's grammar, its
//! simplifications and its compiler once more, as far as they decide whether a regex is taken and how many
//! instructions it becomes; nothing is matched here.
//!
//! Envoy runs RE2 with Latin-1: every byte of pattern and text is a character of its own. So `.` is one byte, `é` is
//! two characters, case is ignored for ASCII letters only, and `\x{100}` is refused. Verdicts and sizes were compared
//! with Envoy 1.40 and with RE2 of November 2025.
//!
//! Work and memory are bounded: by the length of the pattern, its depth, and the size of the program.

mod beginning;
mod class;
mod compile;
mod factor;
mod fault;
mod flatten;
mod group;
mod parse;
mod prefix;
mod program;
mod scan;
mod simplify;
mod substitution;
mod tree;

pub use beginning::{Beginning, beginning};
pub use fault::{RegexFault, SubstitutionFault, SyntaxProblem};
pub use prefix::literal_prefix;
pub use substitution::check_substitution;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Deepest nesting of groups and operators; a group takes up to four levels. RE2 itself has no such limit.
pub const DEPTH_MAX: usize = 250;
/// Most instructions of a program, unless another limit is given.
pub const PROGRAM_SIZE_MAX: u32 = 10_000;
/// Instructions that are built at most, whatever the limit for the program is. RE2 itself gives up a little later.
const INSTRUCTIONS_MAX: usize = 600_000;

/// What a regex may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most instructions of the compiled program: Envoy's `re2.max_program_size.error_level`.
    pub program_size: u32,
}

/// The limit that the bootstrap of this project sets in Envoy.
impl Default for Limits {
    fn default() -> Self {
        Self { program_size: PROGRAM_SIZE_MAX }
    }
}

/// What is known of a regex that Envoy will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Instructions of the compiled program, as `RE2::ProgramSize` counts them.
    pub size: u32,
    /// Capturing groups.
    pub captures: u32,
}

/// Checks that Envoy takes a regex: it is not empty, RE2 can read it, and its program is not too large.
pub fn check(pattern: &str, limits: Limits) -> Result<Program, RegexFault> {
    if pattern.is_empty() {
        return Err(RegexFault::Empty);
    }
    let parsed = parsed(pattern)?;
    let captures = parsed.captures;
    let limit = limits.program_size;
    let huge = RegexFault::Huge { limit };
    // Flattening takes out branches, so that a program may shrink; what shrinks to a quarter is not met in practice.
    let instructions = (limit as usize).saturating_mul(4).saturating_add(10_000).min(INSTRUCTIONS_MAX);
    let Ok(compiled) = compile::compile(parsed, instructions) else { return Err(huge) };
    match flatten::size(compiled) {
        Ok(size) if size <= limit => Ok(Program { size, captures }),
        Ok(size) => Err(RegexFault::ProgramSize { size, limit }),
        Err(_) => Err(huge),
    }
}

/// The number of capturing groups of a regex, for [`check_substitution`].
pub fn capture_count(pattern: &str) -> Result<u32, RegexFault> {
    parsed(pattern).map(|parsed| parsed.captures)
}

fn parsed(pattern: &str) -> Result<parse::Parsed, RegexFault> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(RegexFault::Long { bytes: pattern.len() });
    }
    let latin1: String = pattern.bytes().map(char::from).collect();
    parse::parse(&latin1)
}

#[cfg(test)]
mod tests;
