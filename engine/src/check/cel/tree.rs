//! A condition as a tree.

use std::sync::Arc;

/// A step of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: Kind,
    /// Where in the text it begins, in bytes.
    pub(super) at: usize,
    /// How many steps there are from here to the deepest one.
    pub(super) depth: u16,
    /// How many steps there are in all.
    pub(super) steps: usize,
}

/// See [`Expr`].
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A name.
    Name(Arc<str>),
    /// A constant.
    Constant(Constant),
    /// A field of something.
    Field {
        /// Of what.
        of: Box<Expr>,
        /// Its name.
        name: Arc<str>,
        /// Is it only asked whether it is there?
        only_test: bool,
    },
    /// A function or an operator.
    Call {
        /// Its name; operators have CEL's own (`_&&_`).
        function: Arc<str>,
        /// What it is called on.
        on: Option<Box<Expr>>,
        /// What it is given.
        arguments: Vec<Expr>,
    },
    /// A list.
    List(Vec<Expr>),
    /// Keys with values.
    Map(Vec<(Expr, Expr)>),
}

/// A constant. No two numbers that are not numbers are equal, and CEL has no such literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number without sign.
    Uint(u64),
    /// A number.
    Double(f64),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

impl Expr {
    /// How many steps there are in all.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The function, where it is a call of one that is not called on something.
    pub(super) fn operator(&self) -> Option<(&str, &[Expr])> {
        match &self.kind {
            Kind::Call { function, on: None, arguments } => Some((function, arguments)),
            _ => None,
        }
    }
}
