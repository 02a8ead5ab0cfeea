//! Condition of the GatewayClass about kinds that cannot be read.

use crate::engine::Engine;
use crate::status::Condition;
use crate::watching::{Trouble, Why};

/// Type of the condition.
const CONDITION: &str = "holdfast.dev/ObjectsRead";

impl Engine {
    /// Returns the condition that Holdfast reads the objects of every kind; none without an API server.
    pub(super) fn objects_read(&self) -> Option<Condition> {
        let troubles = self.troubles.as_ref()?;
        // A temporary failure is not reported in a condition, and while the API server is away, no status can be
        // written.
        let lasting = |trouble: &&Trouble| !matches!(trouble.why, Why::Failing | Why::NotServed | Why::Unlisted);
        let wrong: Vec<&Trouble> = troubles.iter().filter(lasting).collect();
        if let Some(worst) = wrong.iter().map(|trouble| trouble.why).max() {
            let said: Vec<String> =
                wrong.iter().map(|trouble| format!("{}: {}", trouble.of, trouble.message)).collect();
            return Some(Condition::new(CONDITION, false, worst.name(), said.join("; ")));
        }
        let unserved = troubles.iter().filter(|trouble| trouble.why == Why::NotServed);
        let unserved: Vec<&str> = unserved.map(|trouble| &*trouble.of).collect();
        let message = match unserved.as_slice() {
            [] => "Holdfast reads the objects of every kind".into(),
            kinds => format!("the API server does not serve {}; all other kinds are read", kinds.join(", ")),
        };
        Some(Condition::new(CONDITION, true, "Read", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Event;
    use crate::settings::Settings;

    #[test]
    fn the_worst_is_the_reason_and_a_kind_that_was_never_there_is_none() {
        let mut engine = Engine::new(Settings::default());
        assert_eq!(engine.objects_read(), None, "nobody is asked");
        let trouble = |of: &str, why| Trouble { of: of.into(), why, message: "it is so".into() };
        let mut says = |troubles: Vec<Trouble>| {
            engine.handle(vec![Event::Troubles(troubles)]);
            let said = engine.objects_read().map(|said| format!("{} {}: {}", said.status, said.reason, said.message));
            said.unwrap_or_default()
        };
        assert_eq!(says(Vec::new()), "True Read: Holdfast reads the objects of every kind");
        let absent = trouble("a/A", Why::NotServed);
        assert_eq!(
            says(vec![absent.clone(), trouble("b/B", Why::Failing)]),
            "True Read: the API server does not serve a/A; all other kinds are read"
        );
        let all = vec![absent, trouble("b/B", Why::Removed), trouble("c/C", Why::Doubted)];
        assert_eq!(says(all), "False Removed: b/B: it is so; c/C: it is so");
    }
}
