//! HTTPProxies below includes that are closed. Their own content can be valid; their status names the include, since
//! clients get its answer.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::section::ObjectSection;
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::{Node, ObjectKey, Step};
use holdfast_translate::httpproxy::is_proxy;

use crate::engine::Engine;

/// The closed includes above each HTTPProxy, each with its answer.
pub(super) type ClosedIncludes = BTreeMap<ObjectKey, BTreeSet<(Node, i64)>>;

/// Returns the closed includes above each HTTPProxy that such an include leads to, at any depth.
pub(super) fn closed_includes(engine: &Engine, report: &FallbackReport) -> ClosedIncludes {
    let mut closed = ClosedIncludes::new();
    let steps = report.gateways.iter().flat_map(|gateway| &gateway.deviations.steps);
    for (node, (step, response)) in steps {
        let is_include = matches!(ObjectSection::parse(&node.section), ObjectSection::Include(_));
        if *step == Step::Replaced && is_include && is_proxy(&node.key) {
            for key in below(engine, node) {
                closed.entry(key).or_default().insert((node.clone(), *response));
            }
        }
    }
    closed
}

/// Returns the HTTPProxies below an include of an HTTPProxy.
fn below(engine: &Engine, include: &Node) -> BTreeSet<ObjectKey> {
    let roots = engine.translator.roots_of(&include.key).chain([&include.key]);
    let edges = roots.flat_map(|root| engine.graph().read_by(root));
    let mut children: BTreeMap<&ObjectKey, BTreeSet<&ObjectKey>> = BTreeMap::new();
    let mut next = Vec::new();
    for edge in edges.filter(|edge| is_proxy(&edge.to.key)) {
        if edge.from == *include {
            next.push(&edge.to.key);
        }
        if matches!(ObjectSection::parse(&edge.from.section), ObjectSection::Include(_)) {
            children.entry(&edge.from.key).or_default().insert(&edge.to.key);
        }
    }
    let mut found = BTreeSet::new();
    while let Some(key) = next.pop() {
        if found.insert(key.clone()) {
            next.extend(children.get(key).into_iter().flatten());
        }
    }
    found
}

/// Returns the condition of an HTTPProxy below closed includes.
pub(super) fn condition(closed: &ClosedIncludes, key: &ObjectKey) -> Option<Condition> {
    let answers = closed.get(key)?.iter().map(|(node, response)| {
        format!("{} of HTTPProxy {} answers {response}", node.section, node.key.namespaced_name())
    });
    let answers = answers.collect::<Vec<_>>().join(", ");
    let message = format!("requests of an include above do not reach the HTTPProxy: {answers}");
    Some(Condition::new(FALLBACK_CONDITION, true, "Replaced", message))
}
