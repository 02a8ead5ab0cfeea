//! Factoring of common prefixes of alternatives: `abc|abd|x` becomes `ab[cd]|x`.
//!
//! There are three rounds, as in RE2: literal prefixes, then equal first pieces, then neighbours that are single
//! characters. The rests after a common prefix are factored in the same way.

use super::class::RuneClass;
use super::encoding::Encoding;
use super::tree::RegexNode;
use super::{DEPTH_MAX, RegexFault};
use crate::meter::Meter;

/// Number of characters, compared or copied, that count as one step.
const RUNES_PER_STEP: usize = 16;

/// Alternatives after factoring.
pub(super) struct Factored {
    pub(super) subs: Vec<RegexNode>,
    /// Number of levels of nodes between an alternative and its rest.
    pub(super) levels: usize,
}

/// Factors the alternatives of one alternation.
pub(super) fn factor(subs: Vec<RegexNode>, encoding: Encoding, meter: &mut Meter) -> Result<Factored, RegexFault> {
    let mut factoring = Factoring { encoding, meter, depth: 0, deepest: 0 };
    let subs = factoring.factor(subs)?;
    // A common prefix and its rests are a concatenation, the rests are an alternation.
    Ok(Factored { subs, levels: factoring.deepest * 2 })
}

struct Factoring<'m> {
    encoding: Encoding,
    meter: &'m mut Meter,
    depth: usize,
    deepest: usize,
}

impl Factoring<'_> {
    fn factor(&mut self, subs: Vec<RegexNode>) -> Result<Vec<RegexNode>, RegexFault> {
        let subs = self.literal_prefixes(subs)?;
        Ok(characters(self.first_pieces(subs)?, self.encoding))
    }

    /// Factors the rests after a common prefix.
    fn below(&mut self, subs: Vec<RegexNode>) -> Result<Vec<RegexNode>, RegexFault> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth * 2 > DEPTH_MAX {
            return Err(RegexFault::Deep);
        }
        let factored = self.factor(subs)?;
        self.depth -= 1;
        Ok(factored)
    }

    /// Counts the nodes and characters that move when the first pieces are removed.
    fn count_moved(&mut self, run: &[RegexNode]) -> Result<(), RegexFault> {
        let moved: usize = run
            .iter()
            .map(|node| match node {
                RegexNode::Concat(subs) => subs.len(),
                RegexNode::String { runes, .. } => runes.len() / RUNES_PER_STEP,
                _ => 0,
            })
            .sum();
        Ok(self.meter.spend(moved)?)
    }

    /// Round 1: runs of neighbours that begin with equal literals.
    fn literal_prefixes(&mut self, subs: Vec<RegexNode>) -> Result<Vec<RegexNode>, RegexFault> {
        let mut out = Vec::with_capacity(subs.len());
        let mut run: Vec<RegexNode> = Vec::new();
        let mut prefix: (Vec<u32>, bool) = (Vec::new(), false);
        for sub in subs {
            self.meter.spend(1 + leading_runes(&sub).0.len() / RUNES_PER_STEP)?;
            let (runes, fold) = leading_runes(&sub);
            let same =
                if fold == prefix.1 { prefix.0.iter().zip(runes).take_while(|(a, b)| a == b).count() } else { 0 };
            if same > 0 {
                prefix.0.truncate(same);
            } else {
                let next = (runes.to_vec(), fold);
                self.flush_prefix(&mut out, &mut run, &prefix)?;
                prefix = next;
            }
            run.push(sub);
        }
        self.flush_prefix(&mut out, &mut run, &prefix)?;
        Ok(out)
    }

    fn flush_prefix(
        &mut self,
        out: &mut Vec<RegexNode>,
        run: &mut Vec<RegexNode>,
        prefix: &(Vec<u32>, bool),
    ) -> Result<(), RegexFault> {
        if run.len() < 2 {
            out.append(run);
            return Ok(());
        }
        let (runes, fold) = prefix;
        self.count_moved(run)?;
        let rest = run.drain(..).map(|sub| without_leading_runes(sub, runes.len())).collect();
        let rest = RegexNode::alternate(self.below(rest)?);
        out.push(RegexNode::concat(vec![RegexNode::literal(runes, *fold), rest]));
        Ok(())
    }

    /// Round 2: runs of neighbours with an equal, simple first piece.
    fn first_pieces(&mut self, subs: Vec<RegexNode>) -> Result<Vec<RegexNode>, RegexFault> {
        let mut out = Vec::with_capacity(subs.len());
        let mut run: Vec<RegexNode> = Vec::new();
        for sub in subs {
            self.meter.spend(1)?;
            let continues = match (run.first().and_then(leading_piece), leading_piece(&sub)) {
                (Some(first), Some(piece)) => may_be_factored(first) && first.same(piece),
                _ => false,
            };
            if !continues {
                self.flush_piece(&mut out, &mut run)?;
            }
            run.push(sub);
        }
        self.flush_piece(&mut out, &mut run)?;
        Ok(out)
    }

    fn flush_piece(&mut self, out: &mut Vec<RegexNode>, run: &mut Vec<RegexNode>) -> Result<(), RegexFault> {
        let piece = run.first().and_then(leading_piece).filter(|_| run.len() >= 2).cloned();
        let Some(piece) = piece else {
            out.append(run);
            return Ok(());
        };
        self.count_moved(run)?;
        let rest = run.drain(..).map(without_leading_piece).collect();
        let rest = RegexNode::alternate(self.below(rest)?);
        out.push(RegexNode::concat(vec![piece, rest]));
        Ok(())
    }
}

/// Returns the literals at the beginning of a node, and whether they ignore case.
fn leading_runes(node: &RegexNode) -> (&[u32], bool) {
    match node {
        RegexNode::Concat(subs) => subs.first().map_or((&[], false), leading_runes),
        RegexNode::Literal { rune, fold } => (std::slice::from_ref(rune), *fold),
        RegexNode::String { runes, fold } => (runes, *fold),
        _ => (&[], false),
    }
}

fn without_leading_runes(node: RegexNode, count: usize) -> RegexNode {
    match node {
        RegexNode::Concat(mut subs) => {
            let Some(first) = subs.first_mut() else { return RegexNode::Concat(subs) };
            let rest = without_leading_runes(std::mem::replace(first, RegexNode::Empty), count);
            if matches!(rest, RegexNode::Empty) {
                subs.remove(0);
                RegexNode::concat(subs)
            } else {
                *first = rest;
                RegexNode::Concat(subs)
            }
        }
        RegexNode::Literal { .. } => RegexNode::Empty,
        RegexNode::String { runes, fold } => RegexNode::literal(runes.get(count..).unwrap_or_default(), fold),
        other => other,
    }
}

fn leading_piece(node: &RegexNode) -> Option<&RegexNode> {
    match node {
        RegexNode::Concat(subs) if subs.len() >= 2 => subs.first().filter(|first| !matches!(first, RegexNode::Empty)),
        RegexNode::Empty => None,
        node => Some(node),
    }
}

fn without_leading_piece(node: RegexNode) -> RegexNode {
    match node {
        RegexNode::Concat(mut subs) if subs.len() >= 2 => {
            subs.remove(0);
            RegexNode::concat(subs)
        }
        _ => RegexNode::Empty,
    }
}

/// Returns whether a piece may be factored out: only pieces with a single path, since others would lose paths.
fn may_be_factored(node: &RegexNode) -> bool {
    match node {
        RegexNode::Look(_) | RegexNode::Class(_) | RegexNode::AnyChar | RegexNode::AnyByte => true,
        RegexNode::Repeat { sub, minimum, maximum, .. } => *maximum == Some(*minimum) && sub.is_single(),
        _ => false,
    }
}

/// Round 3: joins runs of neighbours that are single characters or classes into one class.
fn characters(subs: Vec<RegexNode>, encoding: Encoding) -> Vec<RegexNode> {
    let mut out = Vec::with_capacity(subs.len());
    let mut run: Vec<RegexNode> = Vec::new();
    for sub in subs {
        if matches!(sub, RegexNode::Literal { .. } | RegexNode::Class(_)) {
            run.push(sub);
        } else {
            flush_characters(&mut out, &mut run, encoding);
            out.push(sub);
        }
    }
    flush_characters(&mut out, &mut run, encoding);
    out
}

fn flush_characters(out: &mut Vec<RegexNode>, run: &mut Vec<RegexNode>, encoding: Encoding) {
    if run.len() < 2 {
        out.append(run);
        return;
    }
    let members = run.drain(..).map(|sub| match sub {
        RegexNode::Literal { rune, fold: true } => RuneClass::rune(rune).folded(encoding),
        RegexNode::Literal { rune, fold: false } => RuneClass::rune(rune),
        RegexNode::Class(class) => class,
        _ => RuneClass::default(),
    });
    out.push(RegexNode::Class(RuneClass::union(members)));
}
