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
//! Work and memory are bounded: by the length of the pattern, which is looked at before anything is read; by its depth;
//! by the size of the program, which is counted on the tree before anything is built; and by steps, of each regex and of
//! all regexes of an object. The one way in is [`Regexes`], which charges an object for what is done.

mod beginning;
mod class;
mod compile;
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

pub use beginning::Beginning;
pub use fault::{RegexFault, SubstitutionFault, SyntaxProblem};
pub use memo::steps_taken;
pub use prefix::literal_prefix;
pub use regexes::Regexes;
pub use substitution::check_substitution;

use super::meter::Meter;
use memo::Memo;
use program::GivenUp;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Deepest nesting of groups and operators; a group takes up to four levels. RE2 itself has no such limit.
pub const DEPTH_MAX: usize = 250;
/// Most instructions of a program, unless another limit is given.
pub const PROGRAM_SIZE_MAX: u32 = 10_000;
/// Instructions that are built at most, whatever the limit for the program is. RE2 itself gives up a little later.
const INSTRUCTIONS_MAX: usize = 600_000;
/// Most steps that the check of one regex takes; a step is a character that is read, a node or an instruction that is made
/// or moved, or a place in the program that is visited.
pub const STEPS_MAX: usize = 2_000_000;
/// Most steps that the checks of all regexes of one object take together; the one that goes beyond is still judged.
pub const OBJECT_STEPS_MAX: usize = 8_000_000;

/// What a regex may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Checks that Envoy takes a regex: it is not empty, RE2 can read it, and its program is not too large. With it comes how
/// many steps that took, which are the same for the same regex, also where its verdict was kept.
///
/// This is not an entry point: only [`Regexes`] charges the steps to an object.
fn counted(pattern: &str, limits: Limits) -> (Result<Program, RegexFault>, usize) {
    if let Err(fault) = short(pattern) {
        return (Err(fault), 1);
    }
    static VERDICTS: Memo<Result<Program, RegexFault>> = Memo::new();
    VERDICTS.get(pattern, limits, || {
        let mut meter = Meter::new(STEPS_MAX);
        let verdict = judge(pattern, limits, &mut meter);
        memo::took(meter.spent());
        (verdict, meter.spent())
    })
}

fn judge(pattern: &str, limits: Limits, meter: &mut Meter) -> Result<Program, RegexFault> {
    let parsed = parsed(pattern, meter)?;
    let captures = parsed.captures;
    let limit = limits.program_size;
    let regex = compile::Rewritten::new(parsed.node);
    let least = regex.instructions_min();
    if least > u64::from(limit) {
        return Err(RegexFault::Huge { least, limit });
    }
    // Flattening takes out branches, so that a program may shrink; what shrinks to a quarter is not met in practice.
    let instructions = (limit as usize).saturating_mul(4).saturating_add(10_000).min(INSTRUCTIONS_MAX);
    let given_up = |why| match why {
        GivenUp::TooLarge => RegexFault::Huge { least: u64::from(limit).saturating_add(1), limit },
        GivenUp::Costly => RegexFault::Costly,
    };
    let compiled = compile::compile(&regex, instructions, meter).map_err(given_up)?;
    match flatten::size(compiled).map_err(given_up)? {
        size if size <= limit => Ok(Program { size, captures }),
        size => Err(RegexFault::ProgramSize { size, limit }),
    }
}

/// What comes before anything is read.
fn short(pattern: &str) -> Result<(), RegexFault> {
    match pattern.len() {
        0 => Err(RegexFault::Empty),
        bytes if bytes > PATTERN_BYTES_MAX => Err(RegexFault::Long { bytes }),
        _ => Ok(()),
    }
}

fn parsed(pattern: &str, meter: &mut Meter) -> Result<parse::Parsed, RegexFault> {
    let latin1: String = pattern.bytes().map(char::from).collect();
    parse::parse(&latin1, meter)
}

#[cfg(test)]
mod tests;
