//! Common beginnings of alternatives, taken out: `abc|abd|x` becomes `ab[cd]|x`.
//!
//! Three rounds, as in RE2: literal prefixes, then equal first pieces, then neighbours that are single characters.
//! What remains behind a common beginning is factored in the same way.

use super::class::Class;
use super::tree::Node;

/// Factors the alternatives of one alternation.
pub(super) fn factor(subs: Vec<Node>) -> Vec<Node> {
    characters(first_pieces(literal_prefixes(subs)))
}

/// Round 1: runs of neighbours that begin with the same literals.
fn literal_prefixes(subs: Vec<Node>) -> Vec<Node> {
    let mut out = Vec::with_capacity(subs.len());
    let mut run: Vec<Node> = Vec::new();
    let mut prefix: (Vec<u8>, bool) = (Vec::new(), false);
    for sub in subs {
        let (bytes, fold) = leading_bytes(&sub);
        let same = if fold == prefix.1 { prefix.0.iter().zip(bytes).take_while(|(a, b)| a == b).count() } else { 0 };
        if same > 0 {
            prefix.0.truncate(same);
        } else {
            let next = (bytes.to_vec(), fold);
            flush_prefix(&mut out, &mut run, &prefix);
            prefix = next;
        }
        run.push(sub);
    }
    flush_prefix(&mut out, &mut run, &prefix);
    out
}

fn flush_prefix(out: &mut Vec<Node>, run: &mut Vec<Node>, prefix: &(Vec<u8>, bool)) {
    if run.len() < 2 {
        out.append(run);
        return;
    }
    let (bytes, fold) = prefix;
    let rest = run.drain(..).map(|sub| without_leading_bytes(sub, bytes.len())).collect();
    out.push(Node::concat(vec![Node::literal(bytes, *fold), Node::alternate(factor(rest))]));
}

/// The literals a node begins with, and whether they ignore case.
fn leading_bytes(node: &Node) -> (&[u8], bool) {
    match node {
        Node::Concat(subs) => subs.first().map_or((&[], false), leading_bytes),
        Node::Literal { byte, fold } => (std::slice::from_ref(byte), *fold),
        Node::String { bytes, fold } => (bytes, *fold),
        _ => (&[], false),
    }
}

fn without_leading_bytes(node: Node, count: usize) -> Node {
    match node {
        Node::Concat(mut subs) => {
            let Some(first) = subs.first_mut() else { return Node::Concat(subs) };
            let rest = without_leading_bytes(std::mem::replace(first, Node::Empty), count);
            if matches!(rest, Node::Empty) {
                subs.remove(0);
                Node::concat(subs)
            } else {
                *first = rest;
                Node::Concat(subs)
            }
        }
        Node::Literal { .. } => Node::Empty,
        Node::String { bytes, fold } => Node::literal(bytes.get(count..).unwrap_or_default(), fold),
        other => other,
    }
}

/// Round 2: runs of neighbours whose first piece is the same simple one.
fn first_pieces(subs: Vec<Node>) -> Vec<Node> {
    let mut out = Vec::with_capacity(subs.len());
    let mut run: Vec<Node> = Vec::new();
    for sub in subs {
        let continues = match (run.first().and_then(leading_piece), leading_piece(&sub)) {
            (Some(first), Some(piece)) => may_be_factored(first) && first.same(piece),
            _ => false,
        };
        if !continues {
            flush_piece(&mut out, &mut run);
        }
        run.push(sub);
    }
    flush_piece(&mut out, &mut run);
    out
}

fn flush_piece(out: &mut Vec<Node>, run: &mut Vec<Node>) {
    let piece = run.first().and_then(leading_piece).filter(|_| run.len() >= 2).cloned();
    let Some(piece) = piece else {
        out.append(run);
        return;
    };
    let rest = run.drain(..).map(without_leading_piece).collect();
    out.push(Node::concat(vec![piece, Node::alternate(factor(rest))]));
}

fn leading_piece(node: &Node) -> Option<&Node> {
    match node {
        Node::Concat(subs) if subs.len() >= 2 => subs.first().filter(|first| !matches!(first, Node::Empty)),
        Node::Empty => None,
        node => Some(node),
    }
}

fn without_leading_piece(node: Node) -> Node {
    match node {
        Node::Concat(mut subs) if subs.len() >= 2 => {
            subs.remove(0);
            Node::concat(subs)
        }
        _ => Node::Empty,
    }
}

/// Only pieces with one way through them: others would lose paths.
fn may_be_factored(node: &Node) -> bool {
    match node {
        Node::Look(_) | Node::Class(_) | Node::AnyChar | Node::AnyByte => true,
        Node::Repeat { sub, minimum, maximum, .. } => *maximum == Some(*minimum) && sub.is_single(),
        _ => false,
    }
}

/// Round 3: runs of neighbours that are single characters or classes become one class.
fn characters(subs: Vec<Node>) -> Vec<Node> {
    let mut out = Vec::with_capacity(subs.len());
    let mut run: Vec<Node> = Vec::new();
    for sub in subs {
        if matches!(sub, Node::Literal { .. } | Node::Class(_)) {
            run.push(sub);
        } else {
            flush_characters(&mut out, &mut run);
            out.push(sub);
        }
    }
    flush_characters(&mut out, &mut run);
    out
}

fn flush_characters(out: &mut Vec<Node>, run: &mut Vec<Node>) {
    if run.len() < 2 {
        out.append(run);
        return;
    }
    let mut all = Class::default();
    for sub in run.drain(..) {
        all = all.union(match sub {
            Node::Literal { byte, fold: true } => Class::new(&[(byte, byte)]).folded(),
            Node::Literal { byte, fold: false } => Class::new(&[(byte, byte)]),
            Node::Class(class) => class,
            _ => Class::default(),
        });
    }
    out.push(Node::Class(all));
}
