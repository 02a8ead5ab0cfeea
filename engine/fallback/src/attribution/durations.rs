//! Duration and number of trials of the searches for objects at fault, counted from the refusal to the last verdict.

/// Limit of completed searches that are kept until they are collected.
pub(crate) const ENDED_MAX: usize = 1024;

/// A completed search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// The number of trials, on the probe or on one Envoy; 0 if there was only one suspect.
    pub rounds: u32,
    /// The time from the refusal to the verdict.
    pub took_ms: u64,
}

/// The search in progress, and the completed searches.
#[derive(Debug, Default)]
pub struct Attribution {
    began_ms: Option<u64>,
    rounds: u32,
    ended: Vec<Attributed>,
}

impl Attribution {
    /// Starts a search after a refusal; does nothing if a search is in progress.
    pub fn begin(&mut self, now_ms: u64) {
        self.began_ms.get_or_insert(now_ms);
    }

    /// Counts a trial of the search in progress.
    pub fn round(&mut self) {
        if self.began_ms.is_some() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Ends the search in progress.
    pub fn end(&mut self, now_ms: u64) {
        let Some(began_ms) = self.began_ms.take() else { return };
        let rounds = std::mem::take(&mut self.rounds);
        if self.ended.len() < ENDED_MAX {
            self.ended.push(Attributed { rounds, took_ms: now_ms.saturating_sub(began_ms) });
        }
    }

    /// Returns the searches that were completed since the last call.
    pub fn take(&mut self) -> Vec<Attributed> {
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_counts_from_its_first_refusal_to_its_end() {
        let mut attribution = Attribution::default();
        attribution.round();
        attribution.end(5);
        assert_eq!(attribution.take(), [], "there was none");
        attribution.begin(10);
        attribution.round();
        attribution.begin(20);
        attribution.round();
        attribution.end(30);
        assert_eq!(attribution.take(), [Attributed { rounds: 2, took_ms: 20 }]);
        attribution.begin(40);
        attribution.end(40);
        assert_eq!(attribution.take(), [Attributed { rounds: 0, took_ms: 0 }]);
        assert_eq!(attribution.take(), []);
    }
}
