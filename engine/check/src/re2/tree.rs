//! Syntax tree of a regex, as RE2 builds it.

use super::class::RuneClass;

/// The flags that `(?…)` changes, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// `i`: upper and lower case are equal.
    pub(super) const FOLD: u8 = 1;
    /// The opposite of `m`: `^` and `$` mean the ends of the text.
    pub(super) const ONE_LINE: u8 = 2;
    /// `s`: `.` matches a line feed.
    pub(super) const DOT_NEWLINE: u8 = 4;
    /// `U`: operators prefer fewer repetitions.
    pub(super) const NON_GREEDY: u8 = 8;

    /// Returns the flags at the start of a regex.
    pub(super) fn initial() -> Self {
        Self(Self::ONE_LINE)
    }

    pub(super) fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn with(self, bit: u8, on: bool) -> Self {
        if on { Self(self.0 | bit) } else { Self(self.0 & !bit) }
    }

    pub(super) fn toggled(self, bit: u8) -> Self {
        Self(self.0 ^ bit)
    }
}

/// A condition on a position, which consumes no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    LineStart,
    LineEnd,
    TextStart,
    /// `$` or `\z`, which RE2 distinguishes.
    TextEnd {
        dollar: bool,
    },
    WordBoundary,
    NotWordBoundary,
}

/// `*`, `+` or `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Star,
    Plus,
    Quest,
}

/// A node of a regex.
#[derive(Debug, Clone)]
pub(super) enum RegexNode {
    /// Matches no text, not even the empty text.
    NoMatch,
    /// Matches the empty text.
    Empty,
    Literal {
        rune: u32,
        fold: bool,
    },
    /// Two or more literals in a row.
    String {
        runes: Vec<u32>,
        fold: bool,
    },
    Class(RuneClass),
    AnyChar,
    AnyByte,
    Look(Look),
    Unary {
        operator: Unary,
        sub: Box<RegexNode>,
        flags: Flags,
    },
    /// `{minimum,maximum}`; unbounded without a maximum.
    Repeat {
        sub: Box<RegexNode>,
        minimum: u32,
        maximum: Option<u32>,
        flags: Flags,
    },
    Capture(Box<RegexNode>),
    Concat(Vec<RegexNode>),
    Alternate(Vec<RegexNode>),
}

impl RegexNode {
    /// Returns the literal for some characters: empty, one character, or a string.
    pub(super) fn literal(runes: &[u32], fold: bool) -> Self {
        match runes {
            [] => Self::Empty,
            [rune] => Self::Literal { rune: *rune, fold },
            runes => Self::String { runes: runes.to_vec(), fold },
        }
    }

    /// Returns a concatenation; a single node stays unchanged.
    pub(super) fn concat(subs: Vec<RegexNode>) -> Self {
        Self::unwrapped(subs, Self::Empty, Self::Concat)
    }

    /// Returns an alternation; a single node stays unchanged.
    pub(super) fn alternate(subs: Vec<RegexNode>) -> Self {
        Self::unwrapped(subs, Self::NoMatch, Self::Alternate)
    }

    fn unwrapped(mut subs: Vec<RegexNode>, none: RegexNode, many: fn(Vec<RegexNode>) -> RegexNode) -> Self {
        match subs.len() {
            0 => none,
            1 => subs.pop().unwrap_or(none),
            _ => many(subs),
        }
    }

    /// Returns whether the node matches exactly one character or byte.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Self::Literal { .. } | Self::Class(_) | Self::AnyChar | Self::AnyByte)
    }

    /// Returns whether two nodes are equal; only called for leaves and for repetitions of leaves.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AnyChar, Self::AnyChar) | (Self::AnyByte, Self::AnyByte) => true,
            (Self::Look(one), Self::Look(two)) => one == two,
            (Self::Literal { rune: one, fold }, Self::Literal { rune: two, fold: other }) => {
                one == two && fold == other
            }
            (Self::Class(one), Self::Class(two)) => one == two,
            (
                Self::Repeat { sub: one, minimum, maximum, flags },
                Self::Repeat { sub: two, minimum: least, maximum: most, flags: other },
            ) => {
                let greed = Flags::NON_GREEDY;
                minimum == least && maximum == most && flags.has(greed) == other.has(greed) && one.same(two)
            }
            _ => false,
        }
    }

    /// Returns the child nodes.
    pub(super) fn children(&self) -> &[RegexNode] {
        match self {
            Self::Unary { sub, .. } | Self::Repeat { sub, .. } | Self::Capture(sub) => std::slice::from_ref(sub),
            Self::Concat(subs) | Self::Alternate(subs) => subs,
            _ => &[],
        }
    }
}
