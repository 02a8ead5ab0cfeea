//! Checks of regexes by the rules of RE2 (the engine of Envoy): syntax and program size.
//!
//! Envoy refuses a whole RouteConfiguration because of one regex that RE2 cannot parse, or with a program larger than
//! `re2.max_program_size.error_level`. The `regex` crate of Rust has a different syntax. So this module implements the
//! grammar of RE2, its simplifications and its compiler again, as far as they decide whether a regex is accepted and
//! how many instructions its program has; it matches no text.
//!
//! Envoy runs RE2 with Latin-1: every byte of pattern and text is a separate character. So `.` is one byte, `é` is two
//! characters, case is ignored for ASCII letters only, and `\x{100}` is refused. Only in CEL, RE2 reads UTF-8: a
//! character needs an instruction for each of its bytes, and `\pN` is larger than CEL allows. Verdicts and sizes were
//! compared with Envoy 1.40 and with RE2 of November 2025.
//!
//! Work and memory are limited: by the length of the pattern, which is checked before anything is read; by its depth;
//! by the size of the program, which is counted on the tree before the program is built; and by steps, for each regex
//! and for all regexes of an object. The only entry point is [`Regexes`], which charges the steps to an object.

mod beginning;
mod class;
mod compile;
mod encoding;
mod factor;
mod fault;
mod flatten;
mod group;
mod least;
mod memo;
mod parse;
mod prefix;
mod program;
mod regexes;
mod scan;
mod simplify;
mod substitution;
mod tree;
mod unicode;
mod utf8;

pub use beginning::Beginning;
use encoding::Encoding;
pub use fault::{RegexFault, SubstitutionFault, SyntaxProblem};
use memo::Memo;
pub use memo::steps_taken;
pub use prefix::literal_prefix;
use program::GivenUp;
pub use regexes::Regexes;
pub use substitution::check_substitution;

use super::meter::Meter;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Deepest nesting of groups and operators; a group needs up to four levels. RE2 itself has no such limit.
pub const DEPTH_MAX: usize = 250;
/// Maximum number of instructions of a program, unless another limit is given.
pub const PROGRAM_SIZE_MAX: u32 = 10_000;
/// Maximum number of instructions that are built, whatever the limit for the program is. RE2 itself stops a little
/// later.
const INSTRUCTIONS_MAX: usize = 600_000;
/// Maximum number of steps for the check of one regex; a step is a character that is read, a node or an instruction
/// that is made or moved, or a position in the program that is visited.
pub const STEPS_MAX: usize = 2_000_000;
/// Maximum number of steps for the checks of all regexes of one object together; the regex that exceeds it is still
/// checked.
pub const OBJECT_STEPS_MAX: usize = 8_000_000;

/// Limits of a regex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum number of instructions of the compiled program: `re2.max_program_size.error_level` of Envoy.
    pub program_size: u32,
}

/// The limit that the Envoy bootstrap of this project sets.
impl Default for Limits {
    fn default() -> Self {
        Self { program_size: PROGRAM_SIZE_MAX }
    }
}

/// Properties of a regex that Envoy accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Number of instructions of the compiled program, as `RE2::ProgramSize` counts them.
    pub size: u32,
    /// Number of capturing groups.
    pub captures: u32,
}

/// Checks that Envoy accepts a regex: the regex is not empty, RE2 can parse it, and its program is not too large. Also
/// returns the number of steps, which is always equal for equal regexes, also where the verdict was cached.
///
/// This is not an entry point: only [`Regexes`] charges the steps to an object.
fn counted(pattern: &str, limits: Limits, encoding: Encoding) -> (Result<Program, RegexFault>, usize) {
    if let Err(fault) = short(pattern) {
        return (Err(fault), 1);
    }
    static VERDICTS: Memo<Result<Program, RegexFault>> = Memo::new();
    VERDICTS.get(pattern, limits, encoding, || {
        let mut meter = Meter::new(STEPS_MAX);
        let verdict = judge(pattern, limits, encoding, &mut meter);
        memo::took(meter.spent());
        (verdict, meter.spent())
    })
}

fn judge(pattern: &str, limits: Limits, encoding: Encoding, meter: &mut Meter) -> Result<Program, RegexFault> {
    let parsed = parse::parse(&encoding.read(pattern), encoding, meter)?;
    let captures = parsed.captures;
    let limit = limits.program_size;
    let regex = compile::Rewritten::new(parsed.node, encoding);
    let least = regex.instructions_min();
    if least > u64::from(limit) {
        return Err(RegexFault::Huge { least, limit });
    }
    // Flattening removes branches, so a program may become smaller; a reduction to less than a quarter does not occur
    // in practice.
    let instructions = (limit as usize).saturating_mul(4).saturating_add(10_000).min(INSTRUCTIONS_MAX);
    let given_up = |why| match why {
        GivenUp::TooLarge => RegexFault::Huge { least: u64::from(limit).saturating_add(1), limit },
        GivenUp::Costly => RegexFault::Costly,
    };
    let compiled = compile::compile(&regex, instructions, meter).map_err(given_up)?;
    let size = flatten::size(compiled).map_err(given_up)?;
    // The RE2 of Envoy needs more instructions for an empty group after a repetition than the RE2 that this module
    // follows.
    let most = if encoding == Encoding::Utf8 && regex.has_empty_part() { size.saturating_mul(2) } else { size };
    if most > limit { Err(RegexFault::ProgramSize { size: most, limit }) } else { Ok(Program { size, captures }) }
}

/// Checks the length before anything is read.
fn short(pattern: &str) -> Result<(), RegexFault> {
    match pattern.len() {
        0 => Err(RegexFault::Empty),
        bytes if bytes > PATTERN_BYTES_MAX => Err(RegexFault::Long { bytes }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
