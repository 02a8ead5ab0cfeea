//! Benchmark of `affected` and of deriving a plan, as ratios to a floor that is measured in the same run.
//!
//! `cargo bench -p holdfast-graph --bench plan` measures with criterion at 1,000, 10,000 and 50,000 objects, with 1 and
//! with 20 broken ones: leaves, each of which is required by a hundredth of all routes through a policy. The floor is a
//! plain breadth-first walk from the same nodes over a vector of neighbours. A table of ratios is printed first.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use holdfast_graph::{Edge, Gates, Graph, Node, ObjectKey, Plan, Role, World};

/// Number of runs for the table of ratios; the fastest one counts.
const RUNS: usize = 15;
/// Divisor of the number of routes: each policy is used by the number of routes divided by this.
const SHARE: usize = 100;

struct Everything;

impl World for Everything {
    fn exists(&self, _: &ObjectKey) -> bool {
        true
    }
    fn last_valid(&self, _: &ObjectKey) -> bool {
        true
    }
    fn last_valid_is_worse(&self, _: &ObjectKey) -> bool {
        false
    }
    fn keeps_its_version(&self, key: &ObjectKey) -> bool {
        &*key.kind == "Root"
    }
    fn differs_from_last_valid(&self, _: &ObjectKey) -> bool {
        true
    }
    fn must_replace(&self, _: &Node) -> bool {
        false
    }
    fn can_replace(&self, _: &Node) -> bool {
        true
    }
    fn serves(&self, key: &ObjectKey) -> bool {
        &*key.kind == "Route"
    }
}

struct Case {
    graph: Graph,
    broken: BTreeSet<Node>,
    /// For each node, its dependants; leaves first, then policies, then routes.
    floor: Vec<Vec<u32>>,
    starts: Vec<u32>,
}

fn key(kind: &str, index: usize) -> ObjectKey {
    ObjectKey::new("example.net", kind, format!("team-{}", index % 50), format!("{kind}-{index:06}"))
}

fn case(routes: usize, broken: usize) -> Case {
    let mut graph = Graph::default();
    let mut floor = vec![Vec::new(); 2 * SHARE + routes];
    for (index, dependants) in floor.iter_mut().enumerate().take(SHARE) {
        let (policy, leaf) = (Node::whole(key("Policy", index)), Node::whole(key("Leaf", index)));
        dependants.push(u32::try_from(SHARE + index).unwrap());
        graph.replace(&key("Policy", index), vec![Edge { from: policy, to: leaf, role: Role::Requires }]);
    }
    let root = key("Root", 0);
    for index in 0..routes {
        let route = key("Route", index);
        let edge = |section: &str, to: Node, role| Edge { from: Node::section(route.clone(), section), to, role };
        floor[SHARE + index % SHARE].push(u32::try_from(2 * SHARE + index).unwrap());
        let edges = vec![
            edge("rules[0]", Node::whole(key("Policy", index % SHARE)), Role::Modifies),
            edge("rules[0]", Node::whole(key("Service", index)), Role::Requires),
            edge("", Node::whole(root.clone()), Role::Attaches),
            edge("", Node::section(root.clone(), "listeners[web]"), Role::Attaches),
        ];
        graph.replace(&route, edges);
    }
    let starts = (0..broken).map(|index| u32::try_from(index).unwrap()).collect();
    let broken = (0..broken).map(|index| Node::whole(key("Leaf", index))).collect();
    Case { graph, broken, floor, starts }
}

/// Walks from all starts and returns the reached nodes.
fn walk(case: &Case) -> Vec<u32> {
    let mut seen = vec![false; case.floor.len()];
    let mut reached = case.starts.clone();
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        next += 1;
        for &dependant in &case.floor[at as usize] {
            if !std::mem::replace(&mut seen[dependant as usize], true) {
                reached.push(dependant);
            }
        }
    }
    reached
}

fn affected(case: &Case) -> usize {
    case.broken.iter().map(|node| case.graph.affected(node).len()).sum()
}

fn derive(case: &Case, use_last_valid: bool) -> Plan {
    let gates = Gates { isolate: true, use_last_valid, backfill_dependants: true, replace: true };
    Plan::derive(&case.broken, &BTreeSet::new(), &case.graph, &Everything, &gates)
}

fn fastest<T>(mut run: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let started = Instant::now();
        black_box(run());
        started.elapsed()
    };
    (0..RUNS).map(once).min().unwrap_or_default()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    println!("objects | broken | reached | floor us | affected us | ratio | closing us | ratio | backfill us | ratio");
    for routes in [1_000, 10_000, 50_000] {
        for broken in [1, 20] {
            let case = case(routes, broken);
            assert_eq!(walk(&case).len(), derive(&case, false).decisions.len());
            let floor = fastest(|| walk(&case));
            let all = [
                fastest(|| affected(&case)),
                fastest(|| derive(&case, false).decisions.len()),
                fastest(|| derive(&case, true).decisions.len()),
            ];
            let columns = all.map(|time| {
                let (time, floor) = (time.as_secs_f64(), floor.as_secs_f64());
                format!("{:10.1} | {:6.1}", time * 1e6, time / floor)
            });
            let reached = walk(&case).len();
            let floor = floor.as_secs_f64() * 1e6;
            println!("{routes:7} | {broken:6} | {reached:7} | {floor:8.1} | {}", columns.join(" | "));

            let mut group = criterion.benchmark_group(format!("{routes} objects"));
            let id = |what: &str| BenchmarkId::new(what, broken);
            group.bench_function(id("floor"), |bencher| bencher.iter(|| walk(&case)));
            group.bench_function(id("affected"), |bencher| bencher.iter(|| affected(&case)));
            group.bench_function(id("closing"), |bencher| bencher.iter(|| derive(&case, false)));
            group.bench_function(id("backfill"), |bencher| bencher.iter(|| derive(&case, true)));
            group.finish();
        }
    }
    criterion.final_summary();
}
