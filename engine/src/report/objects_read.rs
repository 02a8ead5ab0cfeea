//! Condition of the GatewayClass about kinds that cannot be read.

use holdfast_api::status::Condition;
use holdfast_api::watch_problem::{WatchProblem, Why};

/// Type of the condition.
const CONDITION: &str = "holdfast.dev/ObjectsRead";

/// Returns the condition that Holdfast reads the objects of every kind, from the problems of watches.
pub(super) fn objects_read(problems: &[WatchProblem]) -> Condition {
    // A temporary failure is not reported in a condition, and while the API server is away, no status can be
    // written.
    let lasting = |problem: &&WatchProblem| !matches!(problem.why, Why::Failing | Why::NotServed | Why::Unlisted);
    let wrong: Vec<&WatchProblem> = problems.iter().filter(lasting).collect();
    if let Some(worst) = wrong.iter().map(|problem| problem.why).max() {
        let messages: Vec<String> =
            wrong.iter().map(|problem| format!("{}: {}", problem.of, problem.message)).collect();
        return Condition::new(CONDITION, false, worst.name(), messages.join("; "));
    }
    let unserved = problems.iter().filter(|problem| problem.why == Why::NotServed);
    let unserved: Vec<&str> = unserved.map(|problem| &*problem.of).collect();
    let message = match unserved.as_slice() {
        [] => "Holdfast reads the objects of every kind".into(),
        kinds => format!("the API server does not serve {}; all other kinds are read", kinds.join(", ")),
    };
    Condition::new(CONDITION, true, "Read", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_the_reason_and_a_kind_that_was_never_there_is_none() {
        let problem = |of: &str, why| WatchProblem { of: of.into(), why, message: "it is so".into() };
        let reported = |problems: Vec<WatchProblem>| {
            let condition = objects_read(&problems);
            format!("{} {}: {}", condition.status, condition.reason, condition.message)
        };
        assert_eq!(reported(Vec::new()), "True Read: Holdfast reads the objects of every kind");
        let absent = problem("a/A", Why::NotServed);
        assert_eq!(
            reported(vec![absent.clone(), problem("b/B", Why::Failing)]),
            "True Read: the API server does not serve a/A; all other kinds are read"
        );
        let all = vec![absent, problem("b/B", Why::Removed), problem("c/C", Why::Doubted)];
        assert_eq!(reported(all), "False Removed: b/B: it is so; c/C: it is so");
    }
}
