//! CEL expression tree.

use std::sync::Arc;

/// A node of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Kind of the node.
    pub kind: ExprNode,
    /// Position of the node in the text, in bytes.
    pub(super) at: usize,
    /// Number of nodes on the longest path from this node down.
    pub(super) depth: u16,
    /// Number of nodes in the subtree.
    pub(super) steps: usize,
}

/// Kind of a node [`Expr`].
#[derive(Clone, Debug, PartialEq)]
pub enum ExprNode {
    /// A name.
    Name(Arc<str>),
    /// A constant.
    Constant(Constant),
    /// A field of a value.
    Field {
        /// The value.
        of: Box<Expr>,
        /// Name of the field.
        name: Arc<str>,
        /// Whether only the existence of the field is tested.
        only_test: bool,
    },
    /// A call of a function or an operator.
    Call {
        /// Name of the function; operators have the names of CEL (`_&&_`).
        function: Arc<str>,
        /// The value on which a method is called.
        on: Option<Box<Expr>>,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// A list.
    List(Vec<Expr>),
    /// A map of keys to values.
    Map(Vec<(Expr, Expr)>),
}

/// A constant. CEL has no literal for NaN, so equality of constants is well defined.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed whole number.
    Int(i64),
    /// An unsigned whole number.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

impl Expr {
    /// Returns the number of nodes in the subtree.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns name and arguments of a call of a function or operator that is not a method.
    pub(super) fn operator(&self) -> Option<(&str, &[Expr])> {
        match &self.kind {
            ExprNode::Call { function, on: None, arguments } => Some((function, arguments)),
            _ => None,
        }
    }
}
