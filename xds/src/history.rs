//! When an Envoy connected and answered, for diagnostics. Nothing is decided by these times.

use std::sync::Arc;

use serde::Serialize;

use crate::{Outcome, ResourceType};

/// Maximum number of names of refused resources that are kept.
const REFUSED_NAMES_MAX: usize = 8;

/// The times of one stream, in seconds of Unix time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamHistory {
    /// When the stream began.
    pub connected: i64,
    /// When the Envoy last acknowledged a response; unset before the first time.
    pub acknowledged: Option<i64>,
    /// Since when the Envoy differs from what it should have; unset while it has all of it.
    pub behind: Option<i64>,
    /// The last refusal.
    pub refused: Option<LastRefusal>,
}

/// The last refusal of an Envoy on a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRefusal {
    /// When it was received.
    pub at: i64,
    /// The type, such as `RDS`.
    pub r#type: &'static str,
    /// The first of the refused resources.
    pub resources: Vec<Arc<str>>,
    /// The message of Envoy, without private keys.
    pub message: Arc<str>,
}

impl StreamHistory {
    /// Records an answer.
    pub(crate) fn answered<'a>(
        &mut self,
        kind: ResourceType,
        outcome: &Outcome,
        names: impl Iterator<Item = &'a Arc<str>>,
        now: i64,
    ) {
        match outcome {
            Outcome::Acknowledged => self.acknowledged = Some(now),
            Outcome::Refused { message } => {
                self.refused = Some(LastRefusal {
                    at: now,
                    r#type: kind.short_name(),
                    resources: names.take(REFUSED_NAMES_MAX).cloned().collect(),
                    message: message.as_str().into(),
                });
            }
        }
    }

    /// Records whether the Envoy has everything that it should have.
    pub(crate) fn compared(&mut self, is_settled: bool, now: i64) {
        self.behind = if is_settled { None } else { self.behind.or(Some(now)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_difference_is_kept() {
        let mut history = StreamHistory::default();
        history.compared(false, 5);
        history.compared(false, 7);
        assert_eq!(history.behind, Some(5));
        history.compared(true, 8);
        history.compared(false, 9);
        assert_eq!(history.behind, Some(9));
        let (names, refused) = ([Arc::from("a")], Outcome::Refused { message: "no".into() });
        history.answered(ResourceType::Route, &Outcome::Acknowledged, [].iter(), 9);
        history.answered(ResourceType::Route, &refused, names.iter(), 10);
        let refusal = history.refused.as_ref();
        assert!(refusal.is_some_and(|it| it.at == 10 && it.r#type == "RDS" && *it.message == *"no"), "{history:?}");
        assert_eq!(history.acknowledged, Some(9));
    }
}
