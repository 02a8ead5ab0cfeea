//! Parser from text to tree, as in RE2: equal grammar, equal errors, and equal early simplifications.
//!
//! The parser keeps a stack of finished nodes and of marks for open groups and alternatives. The nodes above the last
//! mark are one concatenation; the nodes below a bar are the alternatives before it.
//!
//! The grammar: <https://github.com/google/re2/wiki/Syntax>

use super::class::{ASCII_UPPERCASE, ClassBuilder, RuneClass};
use super::encoding::Encoding;
use super::factor;
use super::fault::{RegexFault, SyntaxProblem};
use super::scan::{self, between, take, take_rune};
use super::tree::{Flags, Look, RegexNode, Unary};
use super::{DEPTH_MAX, group};
use crate::meter::Meter;

/// The largest repetition count, also of nested repetitions together.
const REPETITION_MAX: u32 = 1000;

/// A regex that RE2 can parse.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) node: RegexNode,
    pub(super) captures: u32,
}

/// Parses a pattern; for Latin-1, every character of `pattern` is one byte.
pub(super) fn parse(pattern: &str, encoding: Encoding, meter: &mut Meter) -> Result<Parsed, RegexFault> {
    let mut steps = Steps::new(pattern, encoding, meter);
    while let Some(read) = steps.step() {
        read?;
    }
    steps.parser.finish()
}

/// A pattern that is parsed piece by piece.
pub(super) struct Steps<'a, 'm> {
    parser: Parser<'a, 'm>,
    rest: &'a str,
    /// The operator, if the last piece was one: operators cannot be stacked.
    last_operator: Option<&'a str>,
}

impl<'a, 'm> Steps<'a, 'm> {
    pub(super) fn new(pattern: &'a str, encoding: Encoding, meter: &'m mut Meter) -> Self {
        let parser = Parser { pattern, encoding, flags: Flags::initial(), stack: Vec::new(), captures: 0, meter };
        Self { parser, rest: pattern, last_operator: None }
    }

    /// Returns the text that was not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads the next piece and returns whether it was an operator; `None` at the end.
    pub(super) fn step(&mut self) -> Option<Result<bool, RegexFault>> {
        let first = self.rest.chars().next()?;
        let before = self.rest.len();
        let read = self.parser.step(first, &mut self.rest, self.last_operator);
        // The content of a class or a name is read character by character, and scanned once more for its end.
        let spent = self.parser.meter.spend(1 + before.saturating_sub(self.rest.len()) * 2);
        let read = spent.map_err(RegexFault::from).and(read);
        Some(read.map(|operator| {
            self.last_operator = operator;
            operator.is_some()
        }))
    }
}

enum Item {
    Node(ParsedEntry),
    /// An open group: whether it captures, and the flags to restore.
    Group {
        captures: bool,
        flags: Flags,
    },
    Bar,
}

struct ParsedEntry {
    node: RegexNode,
    /// Number of levels of nodes, including this one.
    depth: usize,
}

struct Parser<'a, 'm> {
    pattern: &'a str,
    encoding: Encoding,
    flags: Flags,
    stack: Vec<Item>,
    captures: u32,
    meter: &'m mut Meter,
}

impl<'a> Parser<'a, '_> {
    /// Reads one piece, which starts with `first`; returns the operator, if the piece was one.
    fn step(&mut self, first: char, rest: &mut &'a str, last: Option<&'a str>) -> Result<Option<&'a str>, RegexFault> {
        match first {
            '(' if rest.starts_with("(?") => self.perl_group(rest)?,
            '(' => {
                take(rest);
                self.open(true);
            }
            '|' => {
                take(rest);
                self.bar()?;
            }
            ')' => {
                take(rest);
                self.close()?;
            }
            '^' => {
                take(rest);
                self.push_look(if self.flags.has(Flags::ONE_LINE) { Look::TextStart } else { Look::LineStart });
            }
            '$' => {
                take(rest);
                let one_line = self.flags.has(Flags::ONE_LINE);
                self.push_look(if one_line { Look::TextEnd { dollar: true } } else { Look::LineEnd });
            }
            '.' => {
                take(rest);
                self.push_dot();
            }
            '[' => {
                let class = scan::bracket_class(rest, self.set())?;
                self.push_class(class);
            }
            '*' | '+' | '?' | '{' => return self.operator(first, rest, last),
            '\\' => self.backslash(rest)?,
            _ => self.push_literals(take_rune(rest)),
        }
        Ok(None)
    }

    fn operator(
        &mut self,
        first: char,
        rest: &mut &'a str,
        last: Option<&'a str>,
    ) -> Result<Option<&'a str>, RegexFault> {
        let start = *rest;
        let counts = if first == '{' {
            let Some(counts) = scan::repetition(rest) else {
                self.push_literals(take_rune(rest));
                return Ok(None);
            };
            Some(counts)
        } else {
            take(rest);
            None
        };
        let lazy = rest.starts_with('?');
        if lazy {
            take(rest);
        }
        if let Some(last) = last {
            return Err(SyntaxProblem::RepetitionOperator.at(between(last, rest), self.encoding));
        }
        let flags = if lazy { self.flags.toggled(Flags::NON_GREEDY) } else { self.flags };
        let text = between(start, rest);
        match (counts, first) {
            (Some((minimum, maximum)), _) => self.push_repeat(minimum, maximum, flags, text)?,
            (None, '*') => self.push_unary(Unary::Star, flags, text)?,
            (None, '+') => self.push_unary(Unary::Plus, flags, text)?,
            (None, _) => self.push_unary(Unary::Quest, flags, text)?,
        }
        // The tail of the pattern from here on, so that an error can show a second operator together with this one.
        Ok(Some(start))
    }

    fn backslash(&mut self, rest: &mut &'a str) -> Result<(), RegexFault> {
        let special = match rest.as_bytes().get(1) {
            Some(b'b') => Some(RegexNode::Look(Look::WordBoundary)),
            Some(b'B') => Some(RegexNode::Look(Look::NotWordBoundary)),
            Some(b'A') => Some(RegexNode::Look(Look::TextStart)),
            Some(b'z') => Some(RegexNode::Look(Look::TextEnd { dollar: false })),
            Some(b'C') => Some(RegexNode::AnyByte),
            _ => None,
        };
        if let Some(node) = special {
            *rest = rest.get(2..).unwrap_or_default();
            self.push(node, 1);
        } else if let Some(tail) = rest.strip_prefix("\\Q") {
            let (mut quoted, tail) = tail.split_once("\\E").unwrap_or((tail, ""));
            self.push_literals(std::iter::from_fn(|| take_rune(&mut quoted)));
            *rest = tail;
        } else if let Some(class) = scan::escaped_class(rest, self.set())? {
            self.push_class(class);
        } else {
            let literal = scan::escape(rest, self.encoding)?;
            self.push_literals([literal]);
        }
        Ok(())
    }

    /// Parses `(?i)`, `(?i-s:`, `(?P<name>` and `(?<name>`.
    fn perl_group(&mut self, rest: &mut &'a str) -> Result<(), RegexFault> {
        let start = *rest;
        let encoding = self.encoding;
        let unknown = |rest: &str| SyntaxProblem::PerlOperator.at(between(start, rest), encoding);
        for look_around in ["(?=", "(?!", "(?<=", "(?<!"] {
            if let Some(tail) = start.strip_prefix(look_around)
                && !tail.is_empty()
            {
                return Err(unknown(tail));
            }
        }
        let named = start.strip_prefix("(?P<").or_else(|| start.strip_prefix("(?<")).filter(|tail| !tail.is_empty());
        if let Some(named) = named {
            let (name, tail) = named.split_once('>').ok_or_else(|| SyntaxProblem::CaptureName.at(start, encoding))?;
            if name.is_empty() || !name.chars().all(|character| group::is_in_capture_name(character, encoding)) {
                return Err(SyntaxProblem::CaptureName.at(between(start, tail), encoding));
            }
            *rest = tail;
            self.open(true);
            return Ok(());
        }
        let mut tail = start.get(2..).unwrap_or_default();
        let mut flags = self.flags;
        let (mut on, mut saw_flag) = (true, false);
        loop {
            let Some(letter) = take(&mut tail) else { return Err(unknown(tail)) };
            match letter {
                'i' => flags = flags.with(Flags::FOLD, on),
                'm' => flags = flags.with(Flags::ONE_LINE, !on),
                's' => flags = flags.with(Flags::DOT_NEWLINE, on),
                'U' => flags = flags.with(Flags::NON_GREEDY, on),
                '-' if on => {
                    on = false;
                    saw_flag = false;
                    continue;
                }
                ':' | ')' => {
                    if !on && !saw_flag {
                        return Err(unknown(tail));
                    }
                    if letter == ':' {
                        self.open(false);
                    }
                    break;
                }
                _ => return Err(unknown(tail)),
            }
            saw_flag = true;
        }
        self.flags = flags;
        *rest = tail;
        Ok(())
    }

    fn open(&mut self, captures: bool) {
        self.merge_literals();
        self.captures += u32::from(captures);
        self.stack.push(Item::Group { captures, flags: self.flags });
    }

    /// Ends the concatenation on the stack and moves it below a bar, to the alternatives.
    fn bar(&mut self) -> Result<(), RegexFault> {
        self.merge_literals();
        if !matches!(self.stack.last(), Some(Item::Node(_))) {
            self.push(RegexNode::Empty, 1);
        }
        self.collapse(false)?;
        let Some(Item::Node(entry)) = self.stack.pop() else { return Ok(()) };
        if !matches!(self.stack.last(), Some(Item::Bar)) {
            self.stack.push(Item::Node(entry));
            self.stack.push(Item::Bar);
            return Ok(());
        }
        self.stack.pop();
        // A dot that matches everything absorbs a single character beside it.
        match self.stack.last_mut() {
            Some(Item::Node(before)) if matches!(before.node, RegexNode::AnyChar) && is_character(&entry.node) => {}
            Some(Item::Node(before)) if matches!(entry.node, RegexNode::AnyChar) && is_character(&before.node) => {
                *before = entry;
            }
            _ => self.stack.push(Item::Node(entry)),
        }
        self.stack.push(Item::Bar);
        Ok(())
    }

    fn alternation(&mut self) -> Result<(), RegexFault> {
        self.bar()?;
        self.stack.pop();
        self.collapse(true)
    }

    fn close(&mut self) -> Result<(), RegexFault> {
        self.alternation()?;
        let inner = self.stack.pop();
        let group = self.stack.pop();
        let (Some(Item::Node(inner)), Some(Item::Group { captures, flags })) = (inner, group) else {
            return Err(SyntaxProblem::UnexpectedParenthesis.at(self.pattern, self.encoding));
        };
        self.flags = flags;
        if captures {
            let depth = deeper(inner.depth)?;
            self.push(RegexNode::Capture(Box::new(inner.node)), depth);
        } else {
            self.push(inner.node, inner.depth);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, RegexFault> {
        self.alternation()?;
        let last = self.stack.pop();
        match last {
            Some(Item::Node(entry)) if self.stack.is_empty() => {
                Ok(Parsed { node: entry.node, captures: self.captures })
            }
            _ => Err(SyntaxProblem::MissingParenthesis.at(self.pattern, self.encoding)),
        }
    }

    /// Joins everything above the last mark into one node.
    fn collapse(&mut self, alternate: bool) -> Result<(), RegexFault> {
        let mark = self.stack.iter().rposition(|item| !matches!(item, Item::Node(_))).map_or(0, |index| index + 1);
        if self.stack.len() - mark == 1 {
            return Ok(());
        }
        let mut subs = Vec::new();
        let mut depth = 0;
        self.meter.spend(self.stack.len() - mark)?;
        for item in self.stack.split_off(mark) {
            let Item::Node(entry) = item else { continue };
            depth = depth.max(entry.depth);
            match (entry.node, alternate) {
                (RegexNode::Concat(inner), false) | (RegexNode::Alternate(inner), true) => {
                    self.meter.spend(inner.len())?;
                    subs.extend(inner);
                }
                (node, _) => subs.push(node),
            }
        }
        let node = if alternate {
            let factored = factor::factor(subs, self.encoding, self.meter)?;
            depth += factored.levels;
            RegexNode::alternate(factored.subs)
        } else {
            RegexNode::concat(subs)
        };
        let depth = deeper(depth)?;
        self.stack.push(Item::Node(ParsedEntry { node, depth }));
        Ok(())
    }

    fn push(&mut self, node: RegexNode, depth: usize) {
        self.merge_literals();
        self.stack.push(Item::Node(ParsedEntry { node, depth }));
    }

    fn push_look(&mut self, look: Look) {
        self.push(RegexNode::Look(look), 1);
    }

    fn push_dot(&mut self) {
        if self.flags.has(Flags::DOT_NEWLINE) {
            self.push(RegexNode::AnyChar, 1);
        } else {
            self.push_class(RuneClass::rune(u32::from('\n')).negated(self.encoding));
        }
    }

    /// Returns an empty set with the rules for classes at this position.
    fn set(&mut self) -> ClassBuilder<'_> {
        ClassBuilder::new(self.flags, self.encoding, self.meter)
    }

    /// Pushes a class; a class of one character is a literal, and so is a class of one ASCII letter in both cases.
    fn push_class(&mut self, class: RuneClass) {
        let first = class.ranges().first().map_or(0, |(low, _)| *low);
        let node = match class.len() {
            1 => RegexNode::Literal { rune: first, fold: self.flags.has(Flags::FOLD) },
            2 if ASCII_UPPERCASE.contains(&first) && class.contains(first ^ 0x20) => {
                RegexNode::Literal { rune: first ^ 0x20, fold: true }
            }
            _ => RegexNode::Class(class),
        };
        self.push(node, 1);
    }

    /// Pushes literals; where case is ignored, a character that has other cases is the class of all its cases.
    fn push_literals(&mut self, runes: impl IntoIterator<Item = u32>) {
        let fold = self.flags.has(Flags::FOLD);
        for rune in runes {
            if fold && !self.encoding.cases(rune).is_empty() {
                self.push_class(RuneClass::rune(rune).folded(self.encoding));
            } else {
                self.push(RegexNode::Literal { rune, fold }, 1);
            }
        }
    }

    fn push_unary(&mut self, operator: Unary, flags: Flags, text: &str) -> Result<(), RegexFault> {
        let Some(Item::Node(entry)) = self.stack.last_mut() else {
            return Err(SyntaxProblem::RepetitionArgument.at(text, self.encoding));
        };
        if let RegexNode::Unary { operator: inner, flags: inner_flags, .. } = &mut entry.node
            && *inner_flags == flags
        {
            // a** is a*, and so is every mixture.
            if *inner != operator {
                *inner = Unary::Star;
            }
            return Ok(());
        }
        entry.wrap(|sub| RegexNode::Unary { operator, sub, flags })
    }

    fn push_repeat(&mut self, minimum: u32, maximum: Option<u32>, flags: Flags, text: &str) -> Result<(), RegexFault> {
        let encoding = self.encoding;
        let size = || SyntaxProblem::RepetitionSize.at(text, encoding);
        let most = maximum.unwrap_or(minimum);
        if most < minimum || most > REPETITION_MAX {
            return Err(size());
        }
        let Some(Item::Node(entry)) = self.stack.last_mut() else {
            return Err(SyntaxProblem::RepetitionArgument.at(text, self.encoding));
        };
        entry.wrap(|sub| RegexNode::Repeat { sub, minimum, maximum, flags })?;
        if most >= 2 && repetitions_left(&entry.node, REPETITION_MAX, self.meter)? == 0 {
            return Err(size());
        }
        Ok(())
    }

    /// Joins the two topmost nodes into a string if both are literals. This happens just before another node is pushed,
    /// because an operator that follows applies to the last literal only.
    fn merge_literals(&mut self) {
        let [.., Item::Node(below), Item::Node(top)] = self.stack.as_mut_slice() else { return };
        let (Some((fold, _)), Some((top_fold, added))) = (literal(&below.node), literal(&top.node)) else { return };
        if fold != top_fold {
            return;
        }
        let added = added.to_vec();
        if let RegexNode::Literal { rune, fold } = below.node {
            below.node = RegexNode::String { runes: vec![rune], fold };
        }
        if let RegexNode::String { runes, .. } = &mut below.node {
            runes.extend(added);
        }
        self.stack.pop();
    }
}

impl ParsedEntry {
    /// Wraps this node in another node.
    fn wrap(&mut self, above: impl FnOnce(Box<RegexNode>) -> RegexNode) -> Result<(), RegexFault> {
        self.depth = deeper(self.depth)?;
        let sub = std::mem::replace(&mut self.node, RegexNode::Empty);
        self.node = above(Box::new(sub));
        Ok(())
    }
}

fn deeper(depth: usize) -> Result<usize, RegexFault> {
    if depth >= DEPTH_MAX { Err(RegexFault::Deep) } else { Ok(depth + 1) }
}

fn literal(node: &RegexNode) -> Option<(bool, &[u32])> {
    match node {
        RegexNode::Literal { rune, fold } => Some((*fold, std::slice::from_ref(rune))),
        RegexNode::String { runes, fold } => Some((*fold, runes)),
        _ => None,
    }
}

/// Returns whether a dot can absorb the node in an alternation.
fn is_character(node: &RegexNode) -> bool {
    matches!(node, RegexNode::Literal { .. } | RegexNode::Class(_) | RegexNode::AnyChar)
}

/// Returns the number of times that the innermost part may still be repeated; 0 if there are too many repetitions.
fn repetitions_left(node: &RegexNode, allowed: u32, meter: &mut Meter) -> Result<u32, RegexFault> {
    meter.spend(1)?;
    let allowed = match node {
        RegexNode::Repeat { minimum, maximum, .. } => allowed / maximum.unwrap_or(*minimum).max(1),
        _ => allowed,
    };
    let mut left = allowed;
    for child in node.children() {
        left = left.min(repetitions_left(child, allowed, meter)?);
    }
    Ok(left)
}
