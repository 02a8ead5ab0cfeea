//! Suspects are taken back in by halving, on one Envoy: an ACK clears, a NACK that is down to one convicts.
//!
//! Of n suspects with k culprits it takes at most k·(2 + log2 n) trials. Production as a whole is never part of it.

use std::collections::{BTreeMap, HashSet, VecDeque};

use holdfast_graph::{Content, Node};

/// Those who are taken in or left out together: an object's changed parts, or one unit's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    /// Whose parts they are.
    pub(crate) node: Node,
    /// The parts, and the unit of each.
    pub(crate) contents: BTreeMap<Content, Node>,
}

impl Subject {
    /// Its units, each for itself.
    pub(crate) fn units(&self) -> Vec<Subject> {
        let mut units: BTreeMap<&Node, BTreeMap<Content, Node>> = BTreeMap::new();
        for (content, node) in &self.contents {
            units.entry(node).or_default().insert(*content, node.clone());
        }
        units.into_iter().map(|(node, contents)| Subject { node: node.clone(), contents }).collect()
    }
}

/// What a trial showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// These are innocent.
    Cleared(Vec<Subject>),
    /// This one is refused.
    Convicted(Subject),
    /// Nothing yet.
    Undecided,
}

/// The search.
#[derive(Debug, Default)]
pub(crate) struct Readmission {
    waiting: VecDeque<Vec<Subject>>,
    testing: Option<Vec<Subject>>,
}

impl Readmission {
    /// Takes in a group that was refused as a whole.
    pub(crate) fn add(&mut self, mut subjects: Vec<Subject>) {
        subjects.sort_unstable();
        self.split(subjects);
    }

    fn split(&mut self, mut subjects: Vec<Subject>) {
        let later = subjects.split_off(subjects.len().div_ceil(2));
        for half in [later, subjects] {
            if !half.is_empty() {
                self.waiting.push_front(half);
            }
        }
    }

    /// A group that was refused as a whole is searched next.
    pub(crate) fn search_in(&mut self, subjects: Vec<Subject>) {
        self.split(subjects);
    }

    /// Who is to be taken in next, for a trial; the same again while its outcome is not known.
    pub(crate) fn next(&mut self) -> Option<&[Subject]> {
        if self.testing.is_none() {
            self.testing = self.waiting.pop_front();
        }
        self.testing.as_deref()
    }

    /// The parts that wait or are on trial.
    pub(crate) fn contents(&self) -> HashSet<Content> {
        let subjects = self.waiting.iter().chain(&self.testing).flatten();
        subjects.flat_map(|subject| subject.contents.keys().copied()).collect()
    }

    /// Who is on trial.
    pub(crate) fn testing(&self) -> Option<&[Subject]> {
        self.testing.as_deref()
    }

    /// The trial was acknowledged.
    pub(crate) fn accepted(&mut self) -> Finding {
        self.testing.take().map_or(Finding::Undecided, Finding::Cleared)
    }

    /// The trial was refused.
    pub(crate) fn refused(&mut self) -> Finding {
        let Some(mut subjects) = self.testing.take() else { return Finding::Undecided };
        match subjects.len() {
            0 => Finding::Undecided,
            1 => subjects.pop().map_or(Finding::Undecided, Finding::Convicted),
            _ => {
                self.split(subjects);
                Finding::Undecided
            }
        }
    }

    /// Forgets those whose content is not desired any more.
    pub(crate) fn retain(&mut self, desired: impl Fn(&Subject) -> bool) {
        for group in self.waiting.iter_mut().chain(&mut self.testing) {
            group.retain(&desired);
        }
        self.waiting.retain(|group| !group.is_empty());
        self.testing.take_if(|group| group.is_empty());
    }

    /// Is everybody cleared or convicted?
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.testing.is_none() && self.waiting.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use holdfast_graph::ObjectKey;

    fn subjects(count: usize) -> Vec<Subject> {
        let subject = |index: usize| Subject {
            node: Node::whole(ObjectKey::new("g", "K", "n", format!("s{index:04}"))),
            contents: BTreeMap::from([(
                Content((index as u128).to_be_bytes()),
                Node::whole(ObjectKey::new("", "", "", "")),
            )]),
        };
        (0..count).map(subject).collect()
    }

    /// Runs a search where these are guilty; gives back who was convicted, and how many trials it took.
    fn search(count: usize, guilty: &[usize]) -> (Vec<usize>, usize) {
        let all = subjects(count);
        let guilty: BTreeSet<&Subject> = guilty.iter().map(|index| &all[*index]).collect();
        let mut search = Readmission::default();
        search.add(all.clone());
        let (mut convicted, mut cleared, mut trials) = (Vec::new(), 0, 0);
        while let Some(group) = search.next() {
            trials += 1;
            let bad = group.iter().any(|subject| guilty.contains(subject));
            match if bad { search.refused() } else { search.accepted() } {
                Finding::Convicted(subject) => {
                    convicted.push(all.iter().position(|known| *known == subject).unwrap());
                }
                Finding::Cleared(group) => cleared += group.len(),
                Finding::Undecided => {}
            }
        }
        assert!(search.is_done());
        assert_eq!(cleared + convicted.len(), count, "everybody is cleared or convicted");
        convicted.sort_unstable();
        (convicted, trials)
    }

    #[test]
    fn all_culprits_are_found_and_nobody_else() {
        for (count, guilty) in
            [(2, vec![1]), (7, vec![0, 6]), (100, vec![3, 4, 99]), (1000, (0..20).map(|i| i * 50).collect())]
        {
            let (convicted, trials) = search(count, &guilty);
            assert_eq!(convicted, guilty);
            let bound = guilty.len() * (2 + 2 * count.ilog2() as usize + 2);
            assert!(trials <= bound, "{trials} trials for {} of {count}, bound {bound}", guilty.len());
        }
    }

    #[test]
    fn a_second_group_is_asked_for_besides_the_first() {
        let all = subjects(6);
        let mut search = Readmission::default();
        search.add(all[..4].to_vec());
        search.next();
        search.add(all[4..].to_vec());
        let mut cleared = BTreeSet::new();
        while search.next().is_some() {
            if let Finding::Cleared(group) = search.accepted() {
                cleared.extend(group);
            }
        }
        assert_eq!(cleared, all.into_iter().collect());
    }

    #[test]
    fn who_is_edited_meanwhile_is_not_asked_for_again() {
        let all = subjects(4);
        let mut search = Readmission::default();
        search.add(all.clone());
        search.next();
        search.retain(|subject| *subject != all[0]);
        assert_eq!(search.next().unwrap(), [all[1].clone()]);
        search.accepted();
        search.retain(|_| false);
        assert!(search.is_done() && search.next().is_none());
    }
}
