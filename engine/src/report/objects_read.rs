//! Condition of the GatewayClass about kinds that cannot be read.

use holdfast_api::status::Condition;
use holdfast_api::watch_problem::{WatchProblem, Why};

use crate::engine::Engine;

/// Type of the condition.
const CONDITION: &str = "holdfast.dev/ObjectsRead";

impl Engine {
    /// Returns the condition that Holdfast reads the objects of every kind; none without an API server.
    pub(super) fn objects_read(&self) -> Option<Condition> {
        let problems = self.problems.as_ref()?;
        // A temporary failure is not reported in a condition, and while the API server is away, no status can be
        // written.
        let lasting = |problem: &&WatchProblem| !matches!(problem.why, Why::Failing | Why::NotServed | Why::Unlisted);
        let wrong: Vec<&WatchProblem> = problems.iter().filter(lasting).collect();
        if let Some(worst) = wrong.iter().map(|problem| problem.why).max() {
            let messages: Vec<String> =
                wrong.iter().map(|problem| format!("{}: {}", problem.of, problem.message)).collect();
            return Some(Condition::new(CONDITION, false, worst.name(), messages.join("; ")));
        }
        let unserved = problems.iter().filter(|problem| problem.why == Why::NotServed);
        let unserved: Vec<&str> = unserved.map(|problem| &*problem.of).collect();
        let message = match unserved.as_slice() {
            [] => "Holdfast reads the objects of every kind".into(),
            kinds => format!("the API server does not serve {}; all other kinds are read", kinds.join(", ")),
        };
        Some(Condition::new(CONDITION, true, "Read", message))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::settings::Settings;

    use super::*;
    use crate::engine::Event;

    #[test]
    fn the_worst_is_the_reason_and_a_kind_that_was_never_there_is_none() {
        let mut engine = Engine::new(Settings::default());
        assert_eq!(engine.objects_read(), None, "nobody is asked");
        let problem = |of: &str, why| WatchProblem { of: of.into(), why, message: "it is so".into() };
        let mut reported = |problems: Vec<WatchProblem>| {
            engine.handle(vec![Event::WatchProblems(problems)]);
            let text = engine
                .objects_read()
                .map(|condition| format!("{} {}: {}", condition.status, condition.reason, condition.message));
            text.unwrap_or_default()
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
