//! Parser for the grammar of CEL.

use std::sync::Arc;

use super::NESTING_MAX;
use super::build::{AND, Flawed, NOT, OR, joined, operator, step};
use super::fault::CelProblem;
use super::scan::{Token, TokenKind, tokenize};
use super::tree::{Constant, Expr, ExprNode};
use crate::Excerpt;
use crate::meter::Meter;

/// Words that cannot be names.
const RESERVED: [&str; 16] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];
/// Macros that iterate over lists.
const WALKING: [&str; 5] = ["all", "exists", "exists_one", "filter", "map"];
/// Comparison operators, with their names in CEL.
const RELATIONS: [(&str, &str); 6] =
    [("<", "_<_"), ("<=", "_<=_"), (">", "_>_"), (">=", "_>=_"), ("==", "_==_"), ("!=", "_!=_")];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];

/// Parses a text into a tree.
pub(super) fn parse(text: &str, meter: &Meter) -> Flawed<Expr> {
    let mut parser = CelParser { tokens: tokenize(text, meter)?, next: 0, nesting: 0, meter };
    if parser.peek() == &TokenKind::End {
        return Err((0, CelProblem::Empty));
    }
    let read = parser.expression().and_then(|expr| match parser.peek() {
        TokenKind::End => Ok(expr),
        _ => Err(parser.expected("an operator or the end")),
    });
    read.map_err(|(at, problem)| (at, with_found(text, at, problem)))
}

/// Adds the token at the position to a problem of the kind `Expected`.
fn with_found(text: &str, at: usize, problem: CelProblem) -> CelProblem {
    match problem {
        CelProblem::Expected { wanted, .. } => {
            let rest = text.get(at..).unwrap_or_default();
            let end = rest.char_indices().skip(1).find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '_');
            let token = rest.get(..end.map_or(rest.len(), |(end, _)| end)).unwrap_or_default();
            CelProblem::Expected { found: Excerpt::new(token), wanted }
        }
        other => other,
    }
}

struct CelParser<'m> {
    tokens: Vec<Token>,
    next: usize,
    nesting: usize,
    meter: &'m Meter,
}

impl CelParser<'_> {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.next).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |token| token.at)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Sign(found) if *found == sign);
        self.next += usize::from(found);
        found
    }

    fn need_sign(&mut self, sign: &str, wanted: &'static str) -> Flawed<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.expected(wanted)) }
    }

    fn expected(&self, wanted: &'static str) -> (usize, CelProblem) {
        let problem = match self.peek() {
            TokenKind::End => CelProblem::Ended { wanted },
            _ => CelProblem::Expected { found: Excerpt::new(""), wanted },
        };
        (self.at(), problem)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Flawed<T>) -> Flawed<T> {
        if self.nesting >= NESTING_MAX {
            return Err((self.at(), CelProblem::Deep));
        }
        self.meter.spend(1)?;
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }

    fn expression(&mut self) -> Flawed<Expr> {
        self.nested(|parser| {
            let at = parser.at();
            let condition = parser.either()?;
            if !parser.take_sign("?") {
                return Ok(condition);
            }
            let this = parser.either()?;
            parser.need_sign(":", "the : of a conditional expression")?;
            let that = parser.expression()?;
            operator(at, "_?_:_", vec![condition, this, that])
        })
    }

    fn either(&mut self) -> Flawed<Expr> {
        self.chain("||", OR, |parser| parser.chain("&&", AND, Self::relation))
    }

    /// Parses conditions that are joined by one operator.
    fn chain(&mut self, sign: &str, function: &str, part: fn(&mut Self) -> Flawed<Expr>) -> Flawed<Expr> {
        let at = self.at();
        let mut parts = vec![part(self)?];
        while self.take_sign(sign) {
            parts.push(part(self)?);
        }
        // Each condition is moved, and has a node of its own in the tree.
        self.meter.spend(2 * parts.len())?;
        let whole = joined(&Arc::from(function), parts).ok_or((at, CelProblem::Empty))?;
        // The depth is checked after the conditions are joined into one tree.
        if whole.depth > super::DEPTH_MAX { Err((at, CelProblem::Deep)) } else { Ok(whole) }
    }

    fn relation(&mut self) -> Flawed<Expr> {
        let mut left = self.sum()?;
        loop {
            let at = left.at;
            if matches!(self.peek(), TokenKind::Name(name) if &**name == "in") {
                self.next += 1;
                let right = self.sum()?;
                left = operator(at, "@in", vec![left, right])?;
                continue;
            }
            let Some(function) = self.take_of(&RELATIONS) else { return Ok(left) };
            let right = self.sum()?;
            left = operator(at, function, vec![left, right])?;
        }
    }

    fn sum(&mut self) -> Flawed<Expr> {
        self.left_to_right(&SUMS, |parser| parser.left_to_right(&PRODUCTS, Self::unary))
    }

    fn left_to_right(
        &mut self,
        operators: &[(&str, &'static str)],
        part: fn(&mut Self) -> Flawed<Expr>,
    ) -> Flawed<Expr> {
        let mut left = part(self)?;
        while let Some(function) = self.take_of(operators) {
            let right = part(self)?;
            left = operator(left.at, function, vec![left, right])?;
        }
        Ok(left)
    }

    fn take_of(&mut self, operators: &[(&str, &'static str)]) -> Option<&'static str> {
        let TokenKind::Sign(found) = self.peek() else { return None };
        let (_, function) = operators.iter().find(|(sign, _)| sign == found)?;
        self.next += 1;
        Some(function)
    }

    /// Parses a value with its prefix operators. Two steps pay for the operators that are tried between two values.
    fn unary(&mut self) -> Flawed<Expr> {
        self.meter.spend(2)?;
        let at = self.at();
        if self.take_sign("!") {
            let inner = self.nested(Self::unary)?;
            return operator(at, NOT, vec![inner]);
        }
        if self.take_sign("-") {
            let negative = match self.peek() {
                TokenKind::LeastInt => Some(Constant::Int(i64::MIN)),
                TokenKind::Literal(Constant::Int(number)) => Some(Constant::Int(number.saturating_neg())),
                TokenKind::Literal(Constant::Double(number)) => Some(Constant::Double(-number)),
                _ => None,
            };
            if let Some(negative) = negative {
                self.next += 1;
                let constant = step(at, ExprNode::Constant(negative))?;
                return self.members(constant);
            }
            let inner = self.nested(Self::unary)?;
            return operator(at, "-_", vec![inner]);
        }
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Parses fields, calls and indexes after a value.
    fn members(&mut self, mut expr: Expr) -> Flawed<Expr> {
        loop {
            self.meter.spend(1)?;
            let at = expr.at;
            if self.take_sign(".") {
                let (place, name) = (self.at(), self.selector("the name of a field or function")?);
                if !self.take_sign("(") {
                    expr = step(at, ExprNode::Field { of: Box::new(expr), name, only_test: false })?;
                    continue;
                }
                let arguments = self.list(")")?;
                if let Some(name) = WALKING.into_iter().find(|known| **known == *name) {
                    return Err((place, CelProblem::Macro { name }));
                }
                expr = step(at, ExprNode::Call { function: name, on: Some(Box::new(expr)), arguments })?;
            } else if self.take_sign("[") {
                let index = self.expression()?;
                self.need_sign("]", "]")?;
                expr = operator(at, "_[_]", vec![expr, index])?;
            } else if matches!(self.peek(), TokenKind::Sign("{"))
                && matches!(expr.kind, ExprNode::Name(_) | ExprNode::Field { .. })
            {
                return Err((at, CelProblem::Unserved("messages cannot be made in a condition")));
            } else {
                return Ok(expr);
            }
        }
    }

    /// Parses the name of a variable; reserved words can only be names of fields.
    fn name(&mut self, wanted: &'static str) -> Flawed<Arc<str>> {
        let at = self.at();
        let name = self.selector(wanted)?;
        if RESERVED.contains(&&*name) {
            return Err((at, CelProblem::Reserved { word: Excerpt::new(&name) }));
        }
        Ok(name)
    }

    fn selector(&mut self, wanted: &'static str) -> Flawed<Arc<str>> {
        let TokenKind::Name(name) = self.peek() else { return Err(self.expected(wanted)) };
        let name = name.clone();
        if matches!(&*name, "true" | "false" | "null" | "in") {
            return Err((self.at(), CelProblem::Reserved { word: Excerpt::new(&name) }));
        }
        self.next += 1;
        Ok(name)
    }

    fn primary(&mut self) -> Flawed<Expr> {
        const WANTED: &str = "a value";
        let at = self.at();
        match self.peek().clone() {
            TokenKind::Literal(constant) => {
                self.next += 1;
                step(at, ExprNode::Constant(constant))
            }
            TokenKind::LeastInt => Err((at, CelProblem::Literal("this is no number, or too large"))),
            TokenKind::Name(name) => {
                let constant = match &*name {
                    "true" => Some(Constant::Bool(true)),
                    "false" => Some(Constant::Bool(false)),
                    "null" => Some(Constant::Null),
                    _ => None,
                };
                match constant {
                    Some(constant) => {
                        self.next += 1;
                        step(at, ExprNode::Constant(constant))
                    }
                    None => self.named(at),
                }
            }
            TokenKind::Sign("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.need_sign(")", ")")?;
                Ok(inner)
            }
            TokenKind::Sign("[") => {
                self.next += 1;
                let entries = self.list("]")?;
                step(at, ExprNode::List(entries))
            }
            TokenKind::Sign("{") => {
                self.next += 1;
                self.map(at)
            }
            // A leading dot means the outermost scope, which is searched in any case.
            TokenKind::Sign(".") => {
                self.next += 1;
                self.named(at)
            }
            _ => Err(self.expected(WANTED)),
        }
    }

    fn named(&mut self, at: usize) -> Flawed<Expr> {
        let name = self.name("a name")?;
        if !self.take_sign("(") {
            return step(at, ExprNode::Name(name));
        }
        let mut arguments = self.list(")")?;
        if &*name != "has" {
            return step(at, ExprNode::Call { function: name, on: None, arguments });
        }
        match (arguments.pop().map(|only| only.kind), arguments.is_empty()) {
            (Some(ExprNode::Field { of, name, only_test: false }), true) => {
                step(at, ExprNode::Field { of, name, only_test: true })
            }
            _ => Err((at, CelProblem::Unserved("has() takes one field, as in has(request.headers.role)"))),
        }
    }

    /// Parses values up to the end of a list; a list may end with a comma.
    fn list(&mut self, end: &'static str) -> Flawed<Vec<Expr>> {
        let mut entries = Vec::new();
        while !self.take_sign(end) {
            entries.push(self.expression()?);
            if !self.take_sign(",") {
                self.need_sign(end, if end == ")" { ") or ," } else { "] or ," })?;
                break;
            }
            // Only lists may end with a comma, arguments may not.
            if end == ")" && matches!(self.peek(), TokenKind::Sign(")")) {
                return Err(self.expected("a value"));
            }
        }
        Ok(entries)
    }

    fn map(&mut self, at: usize) -> Flawed<Expr> {
        let mut entries = Vec::new();
        while !self.take_sign("}") {
            let key = self.expression()?;
            self.need_sign(":", "the : between key and value")?;
            entries.push((key, self.expression()?));
            if !self.take_sign(",") {
                self.need_sign("}", "} or ,")?;
                break;
            }
        }
        step(at, ExprNode::Map(entries))
    }
}
