//! Readmission of suspects by halving, on one Envoy: an ACK clears a group, and a NACK of a single suspect convicts it.
//!
//! With n suspects and k culprits, readmission takes at most k·(2 + log2 n) trials. Production as a whole is never part
//! of it. Suspects of several owners (namespaces) are divided into those of owners with recent refusals and those of the
//! others, and then halved by owner until each group belongs to one owner. Then each owner has a queue, and the owner
//! with the fewest recent refusals is next: an owner with many culprits waits behind all others.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::{Content, Node};
use holdfast_xds::Version;

use crate::evidence::subject::{Subject, owners};

/// Milliseconds from a trial without an answer to the next trial of the suspect; doubled after each further trial
/// without an answer.
pub(crate) const PARKED_MS: u64 = 30_000;
/// Limit of these doublings.
pub(crate) const PARKED_DOUBLINGS: u32 = 4;

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Subjects that are not at fault.
    Cleared(Vec<Subject>),
    /// A subject that is refused.
    Convicted(Subject),
    /// No result yet.
    Undecided,
}

/// The place of the next group. At equal use, groups of several owners are first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NextGroup {
    /// The position among the groups of several owners.
    Shared(usize),
    /// The owner.
    Own(Arc<str>),
}

/// The search.
#[derive(Debug, Default)]
pub struct Readmission {
    /// Groups of several owners, in the order of their trials.
    shared: VecDeque<Vec<Subject>>,
    /// Groups of one owner, by owner, in the order of their trials.
    own: BTreeMap<Arc<str>, VecDeque<Vec<Subject>>>,
    testing: Option<Vec<Subject>>,
    /// Subjects without any content in their trial, because the content that requires them was closed for another
    /// suspect.
    absent: Vec<Subject>,
    /// Subjects of trials that no Envoy answered, and the time of the next trial of each, in milliseconds of Unix time.
    parked: Vec<(Subject, u64)>,
    /// The number of unanswered trials of each subject as the only one.
    unanswered: BTreeMap<Node, u32>,
    /// Whether any subject was cleared or convicted since the last trials of the absent ones.
    progress: bool,
    /// Contents that can only be tried together with others.
    tied: HashSet<Content>,
    /// Refused resources for which other subjects were tried before the ones on trial: once for each resource.
    with_others: HashSet<Version>,
    /// Contents that were cleared in this search: none of them is suspected in it again.
    cleared: HashSet<Content>,
}

impl Readmission {
    /// Adds a group that was refused as a whole: it is searched after the earlier groups of its owner.
    pub fn add(&mut self, subjects: Vec<Subject>) {
        for half in halves(subjects) {
            self.queue(&half).push_back(half);
        }
    }

    /// Adds a group that was refused as a whole: it is searched before the other groups of its owner.
    pub(crate) fn search_in(&mut self, subjects: Vec<Subject>) {
        for half in halves(subjects).into_iter().rev() {
            self.queue(&half).push_front(half);
        }
    }

    fn queue(&mut self, group: &[Subject]) -> &mut VecDeque<Vec<Subject>> {
        let mut owners = owners(group);
        match owners.pop_first() {
            Some(owner) if owners.is_empty() => self.own.entry(owner).or_default(),
            _ => &mut self.shared,
        }
    }

    /// Returns the next group for a trial; the same group until its result is known. `used` returns the number of
    /// recent refusals of an owner, or `None` if the owner may not be tried now.
    pub fn next(&mut self, used: impl Fn(&str) -> Option<u64>) -> Option<&[Subject]> {
        let of_group = |group: &[Subject]| owners(group).iter().try_fold(0, |most, owner| Some(used(owner)?.max(most)));
        if self.testing.as_deref().is_some_and(|testing| of_group(testing).is_none())
            && let Some(group) = self.testing.take()
        {
            self.queue(&group).push_front(group);
        }
        if self.testing.is_none() {
            if !self.waits() && std::mem::take(&mut self.progress) {
                for subject in std::mem::take(&mut self.absent) {
                    let group = vec![subject];
                    self.queue(&group).push_back(group);
                }
            }
            self.divide_by_use(&used);
            let shared = self.shared.iter().enumerate();
            let shared = shared.filter_map(|(index, group)| Some((of_group(group)?, NextGroup::Shared(index))));
            let own = self.own.keys().filter_map(|owner| Some((used(owner)?, NextGroup::Own(owner.clone()))));
            let (_, next) = shared.chain(own).min()?;
            self.testing = match next {
                NextGroup::Shared(index) => self.shared.remove(index),
                NextGroup::Own(owner) => {
                    let group = self.own.get_mut(&owner).and_then(VecDeque::pop_front);
                    self.own.retain(|_, groups| !groups.is_empty());
                    group
                }
            };
        }
        self.testing.as_deref()
    }

    /// Divides groups of several owners: no owner waits for another one with a used-up budget, and owners without a recent
    /// refusal are tried without the others, so that they are cleared by the first trial.
    fn divide_by_use(&mut self, used: &impl Fn(&str) -> Option<u64>) {
        for group in std::mem::take(&mut self.shared) {
            let mut parts: BTreeMap<Option<bool>, Vec<Subject>> = BTreeMap::new();
            for subject in group {
                let used = used(&subject.node.key.namespace);
                parts.entry(used.map(|used| used > 0)).or_default().push(subject);
            }
            for part in parts.into_values() {
                self.queue(&part).push_back(part);
            }
        }
    }

    /// Handles a trial that no Envoy answered, which proves nothing: a group is tried in halves after all others, a
    /// single subject after some time.
    pub(crate) fn not_answered(&mut self, now_ms: u64) {
        let Some(subjects) = self.testing.take() else { return };
        if subjects.len() > 1 {
            return self.add(subjects);
        }
        for subject in subjects {
            let times = self.unanswered.entry(subject.node.clone()).or_insert(0);
            let until = now_ms.saturating_add(PARKED_MS << (*times).min(PARKED_DOUBLINGS));
            *times = times.saturating_add(1);
            self.parked.push((subject, until));
        }
    }

    /// Handles a trial that proved nothing: the group is tried again before the others of its owner.
    pub(crate) fn again(&mut self) {
        if let Some(group) = self.testing.take() {
            self.queue(&group).push_front(group);
        }
    }

    /// Queues the subjects of unanswered trials again, if their time has come.
    pub(crate) fn unpark(&mut self, now_ms: u64) {
        let (due, parked) = std::mem::take(&mut self.parked).into_iter().partition(|(_, until)| *until <= now_ms);
        self.parked = parked;
        let due: Vec<(Subject, u64)> = due;
        for (subject, _) in due {
            let group = vec![subject];
            self.queue(&group).push_back(group);
        }
    }

    /// Returns the subjects without any content in their trials.
    pub fn absent(&self) -> &[Subject] {
        &self.absent
    }

    /// Combines subjects that close each other: from now on they are tried as one. `closes` checks whether one of two
    /// subjects closes the other.
    pub(crate) fn tie(&mut self, closes: impl Fn(&Subject, &Subject) -> bool) {
        let mut groups: Vec<Vec<Subject>> = Vec::new();
        for subject in std::mem::take(&mut self.absent) {
            let near = |group: &Vec<Subject>| group.iter().any(|other| closes(other, &subject));
            let (joined, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(near);
            groups = rest;
            groups.push(joined.into_iter().flatten().chain([subject]).collect());
        }
        for group in groups {
            let Some(node) = group.first().map(|subject| subject.node.clone()) else { continue };
            let contents: BTreeMap<Content, Node> = group.into_iter().flat_map(|subject| subject.contents).collect();
            self.tied.extend(contents.keys().copied());
            let group = vec![Subject { node, contents }];
            self.queue(&group).push_back(group);
        }
    }

    /// Checks whether a subject is tried as one because its parts cannot be tried separately.
    pub(crate) fn is_tied(&self, subject: &Subject) -> bool {
        subject.contents.keys().all(|content| self.tied.contains(content))
    }

    /// Checks whether other subjects are to be tried for this refused resource for the first time.
    pub fn is_first(&mut self, version: Version) -> bool {
        self.with_others.insert(version)
    }

    /// Checks whether this content was cleared in this search.
    pub(crate) fn has_cleared(&self, content: &Content) -> bool {
        self.cleared.contains(content)
    }

    /// Returns the parts that wait or are on trial.
    pub fn contents(&self) -> HashSet<Content> {
        let groups = self.shared.iter().chain(self.own.values().flatten()).chain(&self.testing);
        let parked = self.parked.iter().map(|(subject, _)| subject);
        groups
            .flatten()
            .chain(&self.absent)
            .chain(parked)
            .flat_map(|subject| subject.contents.keys().copied())
            .collect()
    }

    /// Checks whether any group waits for its trial.
    pub fn waits(&self) -> bool {
        !self.shared.is_empty() || !self.own.is_empty()
    }

    /// Returns the owners of subjects that wait or are on trial.
    pub fn owners(&self) -> BTreeSet<Arc<str>> {
        let groups = self.shared.iter().chain(self.own.values().flatten()).chain(&self.testing);
        let parked = self.parked.iter().map(|(subject, _)| subject.node.key.namespace.clone());
        groups.flat_map(|group| owners(group)).chain(owners(&self.absent)).chain(parked).collect()
    }

    /// Returns the subjects on trial.
    pub fn testing(&self) -> Option<&[Subject]> {
        self.testing.as_deref()
    }

    /// Handles an acknowledged trial. It proves nothing about subjects without content in it.
    pub fn accepted(&mut self, took_part: impl Fn(&Subject) -> bool) -> Finding {
        let Some(testing) = self.testing.take() else { return Finding::Undecided };
        let (mut cleared, absent): (Vec<_>, Vec<_>) = testing.into_iter().partition(took_part);
        self.cleared.extend(cleared.iter().flat_map(|subject| subject.contents.keys()));
        // Combined subjects are served again without evidence: no configuration that could be offered contains them.
        let (tied, absent): (Vec<_>, Vec<_>) = absent.into_iter().partition(|subject| self.is_tied(subject));
        cleared.extend(tied);
        self.progress |= !cleared.is_empty();
        self.absent.extend(absent);
        Finding::Cleared(cleared)
    }

    /// Handles a refused trial that contained other untried subjects as well: these may be at fault.
    pub(crate) fn refused_with(&mut self, others: Vec<Subject>) {
        let mut subjects = self.testing.take().unwrap_or_default();
        subjects.extend(others);
        self.search_in(subjects);
    }

    /// Handles a refused trial for which other subjects are at fault. The subjects on trial are tried again after
    /// these.
    pub(crate) fn refused_for(&mut self, others: Vec<Subject>) {
        if let Some(group) = self.testing.take() {
            self.queue(&group).push_back(group);
        }
        self.search_in(others);
    }

    /// Checks whether any content on trial is accused.
    pub(crate) fn is_on_trial(&self, is_accused: impl Fn(&Content) -> bool) -> bool {
        self.testing.iter().flatten().flat_map(|subject| subject.contents.keys()).any(is_accused)
    }

    /// Handles a refused trial. Only accused contents can be at fault for the refused resource; subjects on trial
    /// without accused content are tried again, separately from the accused ones.
    pub fn refused(&mut self, is_accused: impl Fn(&Content) -> bool) -> Finding {
        let testing = self.testing.take().unwrap_or_default();
        let is_part = |subject: &Subject| subject.contents.keys().any(&is_accused);
        let (mut accused, beside): (Vec<_>, Vec<_>) = testing.into_iter().partition(is_part);
        if !beside.is_empty() {
            self.queue(&beside).push_back(beside);
        }
        if accused.len() > 1 {
            self.search_in(accused);
            return Finding::Undecided;
        }
        match accused.pop() {
            None => Finding::Undecided,
            Some(only) if self.is_tied(&only) => self.refused_tied(only, is_accused),
            Some(only) => {
                self.progress = true;
                Finding::Convicted(only)
            }
        }
    }

    /// Handles the refusal of contents that can only be tried together: the accused ones are halved, each half together
    /// with the other contents.
    fn refused_tied(&mut self, subject: Subject, is_accused: impl Fn(&Content) -> bool) -> Finding {
        if subject.contents.keys().all(&is_accused) {
            self.progress = true;
            return Finding::Convicted(subject);
        }
        let (accused, beside): (BTreeMap<_, _>, BTreeMap<_, _>) =
            subject.contents.into_iter().partition(|(content, _)| is_accused(content));
        let units = Subject { node: subject.node, contents: accused }.units();
        if let [only] = &units[..] {
            if let Some(node) = beside.values().next().cloned() {
                self.add(vec![Subject { node, contents: beside }]);
            }
            self.progress = true;
            return Finding::Convicted(only.clone());
        }
        for half in halves(units).into_iter().rev() {
            let Some(node) = half.first().map(|unit| unit.node.clone()) else { continue };
            let contents = half.into_iter().flat_map(|unit| unit.contents).chain(beside.clone()).collect();
            let group = vec![Subject { node, contents }];
            self.queue(&group).push_front(group);
        }
        Finding::Undecided
    }

    /// Removes subjects with content that is no longer desired.
    pub fn retain(&mut self, desired: impl Fn(&Subject) -> bool) {
        for group in self.shared.iter_mut().chain(self.own.values_mut().flatten()).chain(&mut self.testing) {
            group.retain(&desired);
        }
        self.absent.retain(&desired);
        self.parked.retain(|(subject, _)| desired(subject));
        // A group that has lost all owners but one belongs to that one.
        let (shared, own): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.shared).into_iter().partition(|group| owners(group).len() > 1);
        self.shared = shared.into();
        own.into_iter().filter(|group| !group.is_empty()).for_each(|group| self.queue(&group).push_back(group));
        self.own.values_mut().for_each(|groups| groups.retain(|group| !group.is_empty()));
        self.own.retain(|_, groups| !groups.is_empty());
        self.testing.take_if(|group| group.is_empty());
    }

    /// Checks whether all subjects are cleared or convicted.
    pub fn is_done(&self) -> bool {
        self.testing.is_none() && !self.waits() && self.absent.is_empty() && self.parked.is_empty()
    }
}

/// Returns both halves of suspects, divided by owner if there are several. The half that is tried first comes first.
fn halves(mut subjects: Vec<Subject>) -> Vec<Vec<Subject>> {
    subjects.sort_unstable();
    let owners: Vec<Arc<str>> = owners(&subjects).into_iter().collect();
    let (first, second): (Vec<_>, Vec<_>) = match owners.get(owners.len().div_ceil(2)) {
        Some(middle) if owners.len() > 1 => {
            subjects.into_iter().partition(|subject| subject.node.key.namespace < *middle)
        }
        _ => {
            let second = subjects.split_off(subjects.len().div_ceil(2));
            (subjects, second)
        }
    };
    [first, second].into_iter().filter(|half| !half.is_empty()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_graph::ObjectKey;

    use super::*;

    fn subjects(count: usize) -> Vec<Subject> {
        let subject = |index: usize| {
            let node = Node::whole(ObjectKey::new("g", "K", "n", format!("s{index:04}")));
            Subject { contents: BTreeMap::from([(Content((index as u128).to_be_bytes()), node.clone())]), node }
        };
        (0..count).map(subject).collect()
    }

    #[test]
    fn a_refused_resource_accuses_only_what_it_holds() {
        let all = subjects(4);
        let is = |index: usize| move |content: &Content| *content == Content((index as u128).to_be_bytes());
        let mut search = Readmission::default();
        search.add(all.clone());
        assert_eq!(search.next(|_| Some(0)).unwrap(), &all[..2]);
        assert!(!search.is_on_trial(is(2)));
        assert_eq!(search.refused(is(0)), Finding::Convicted(all[0].clone()));
        let mut cleared = Vec::new();
        while search.next(|_| Some(0)).is_some() {
            let Finding::Cleared(group) = search.accepted(|_| true) else { panic!() };
            cleared.extend(group);
        }
        cleared.sort_unstable();
        assert_eq!(cleared, all[1..], "the other that was on trial is tried again");
    }

    #[test]
    fn of_contents_that_are_tried_together_only_the_accused_are_convicted() {
        let all = subjects(4);
        let is = |index: usize| move |content: &Content| *content == Content((index as u128).to_be_bytes());
        let contents = |search: &mut Readmission| {
            let group = search.next(|_| Some(0)).unwrap_or_default();
            group.iter().flat_map(|subject| subject.contents.keys().copied()).collect::<Vec<_>>()
        };
        let of =
            |indices: &[usize]| indices.iter().map(|index| Content((*index as u128).to_be_bytes())).collect::<Vec<_>>();
        let mut search = Readmission::default();
        search.add(all.clone());
        while search.next(|_| Some(0)).is_some() {
            assert_eq!(search.accepted(|_| false), Finding::Cleared(Vec::new()));
        }
        search.tie(|_, _| true);
        assert_eq!(contents(&mut search), of(&[0, 1, 2, 3]));
        // Two parts of a route configuration, together with the filters that they use.
        assert_eq!(search.refused(|content| is(0)(content) || is(1)(content)), Finding::Undecided);
        assert_eq!(contents(&mut search), of(&[0, 2, 3]));
        let Finding::Convicted(found) = search.refused(is(3)) else { panic!() };
        assert_eq!(found.contents.into_keys().collect::<Vec<_>>(), of(&[3]));
        assert_eq!(contents(&mut search), of(&[1, 2, 3]));
        assert!(matches!(search.accepted(|_| true), Finding::Cleared(_)));
        assert_eq!(contents(&mut search), of(&[0, 2]), "what was refused beside a filter is tried without it");
    }

    /// Runs a search with these guilty subjects. Returns the convicted ones, and the number of trials.
    fn search(count: usize, guilty: &[usize]) -> (Vec<usize>, usize) {
        let all = subjects(count);
        let guilty: BTreeSet<&Subject> = guilty.iter().map(|index| &all[*index]).collect();
        let mut search = Readmission::default();
        search.add(all.clone());
        let (mut convicted, mut cleared, mut trials) = (Vec::new(), 0, 0);
        while let Some(group) = search.next(|_| Some(0)) {
            trials += 1;
            let bad = group.iter().any(|subject| guilty.contains(subject));
            match if bad { search.refused(|_| true) } else { search.accepted(|_| true) } {
                Finding::Convicted(subject) => {
                    convicted.push(all.iter().position(|known| *known == subject).unwrap());
                }
                Finding::Cleared(group) => cleared += group.len(),
                Finding::Undecided => {}
            }
        }
        assert!(search.is_done());
        assert_eq!(cleared + convicted.len(), count, "every suspect is cleared or convicted");
        convicted.sort_unstable();
        (convicted, trials)
    }

    #[test]
    fn an_owner_without_refusals_is_tried_first_and_waits_for_no_other_owner() {
        let of = |owner: &str, name: &str| {
            let node = Node::whole(ObjectKey::new("g", "K", owner, name));
            let content =
                Content((u128::from(owner.as_bytes()[0]) << 8 | u128::from(name.as_bytes()[0])).to_be_bytes());
            Subject { contents: BTreeMap::from([(content, node.clone())]), node }
        };
        let all = vec![of("a", "1"), of("b", "1"), of("c", "1"), of("d", "1"), of("d", "2")];
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| all[index].clone());
        // The budget of `c` is used up.
        let used = |owner: &str| match owner {
            "a" | "b" => Some(2),
            "c" => None,
            _ => Some(0),
        };
        let mut search = Readmission::default();
        search.add(all.clone());
        assert_eq!(search.next(used).unwrap(), [d.clone(), all[4].clone()]);
        assert_eq!(search.accepted(|_| true), Finding::Cleared(vec![d, all[4].clone()]));
        assert_eq!(search.next(used).unwrap(), [a.clone(), b.clone()]);
        assert_eq!(search.refused(|_| true), Finding::Undecided);
        assert_eq!(search.next(used).unwrap(), [a]);
        search.accepted(|_| true);
        assert_eq!(search.next(used).unwrap(), std::slice::from_ref(&b));
        assert_eq!(search.refused(|_| true), Finding::Convicted(b));
        assert_eq!(search.next(used), None);
        assert_eq!(search.next(|_| Some(0)).unwrap(), [c]);
    }

    #[test]
    fn exactly_the_culprits_are_convicted() {
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
    fn a_second_group_is_tried_besides_the_first() {
        let all = subjects(6);
        let mut search = Readmission::default();
        search.add(all[..4].to_vec());
        search.next(|_| Some(0));
        search.add(all[4..].to_vec());
        let mut cleared = BTreeSet::new();
        while search.next(|_| Some(0)).is_some() {
            if let Finding::Cleared(group) = search.accepted(|_| true) {
                cleared.extend(group);
            }
        }
        assert_eq!(cleared, all.into_iter().collect());
    }

    #[test]
    fn what_takes_no_part_in_its_trial_is_tried_again_and_then_with_what_closes_it() {
        let all = subjects(3);
        let mut search = Readmission::default();
        search.add(all.clone());
        // Each of the first two closes the other; the third can be tried alone.
        let mut tried = Vec::new();
        let mut convicted = Vec::new();
        loop {
            if search.next(|_| Some(0)).is_none() {
                if search.absent().is_empty() {
                    break;
                }
                search.tie(|one, other| *one != all[2] && *other != all[2]);
            }
            let group = search.next(|_| Some(0)).unwrap().to_vec();
            let contents: BTreeSet<Content> =
                group.iter().flat_map(|subject| subject.contents.keys().copied()).collect();
            let pair = all[..2].iter().all(|subject| subject.contents.keys().all(|content| contents.contains(content)));
            tried.push(contents.len());
            match if pair { search.refused(|_| true) } else { search.accepted(|subject| *subject == all[2]) } {
                Finding::Convicted(subject) => convicted.push(subject),
                Finding::Cleared(_) | Finding::Undecided => {}
            }
        }
        assert!(search.is_done());
        assert!(tried.len() <= 8, "it ends: {tried:?}");
        let both: BTreeSet<Content> = all[..2].iter().flat_map(|subject| subject.contents.keys().copied()).collect();
        let found: BTreeSet<Content> = convicted.iter().flat_map(|subject| subject.contents.keys().copied()).collect();
        assert_eq!((convicted.len(), found), (1, both), "neither alone can be judged");
    }

    #[test]
    fn what_was_in_a_trial_untried_is_tried_alone() {
        let all = subjects(2);
        let mut search = Readmission::default();
        search.add(all[..1].to_vec());
        search.next(|_| Some(0));
        search.refused_with(all[1..].to_vec());
        let mut order = Vec::new();
        while let Some(group) = search.next(|_| Some(0)) {
            order.push(group.to_vec());
            search.accepted(|_| true);
        }
        assert_eq!(order, [vec![all[0].clone()], vec![all[1].clone()]]);
        search.add(all[..1].to_vec());
        search.next(|_| Some(0));
        search.refused_for(all[1..].to_vec());
        assert_eq!(search.next(|_| Some(0)).unwrap(), [all[1].clone()], "the culprits come first");
    }

    #[test]
    fn a_subject_that_is_edited_meanwhile_is_not_tried_again() {
        let all = subjects(4);
        let mut search = Readmission::default();
        search.add(all.clone());
        search.next(|_| Some(0));
        search.retain(|subject| *subject != all[0]);
        assert_eq!(search.next(|_| Some(0)).unwrap(), [all[1].clone()]);
        search.accepted(|_| true);
        search.retain(|_| false);
        assert!(search.is_done() && search.next(|_| Some(0)).is_none());
    }

    fn of_owner(owner: &str, count: usize) -> Vec<Subject> {
        let mut subjects = subjects(count);
        for (index, subject) in subjects.iter_mut().enumerate() {
            subject.node.key.namespace = owner.into();
            let content = Content((((owner.len() as u128) << 64) + index as u128).to_be_bytes());
            subject.contents = subject.contents.values().map(|node| (content, node.clone())).collect();
        }
        subjects
    }

    #[test]
    fn an_owner_of_many_culprits_waits_behind_all_others() {
        let (bad, good): (_, Vec<Vec<Subject>>) =
            (of_owner("attacker", 100), ["b", "cc", "zzz"].map(|owner| of_owner(owner, 3)).into());
        let mut search = Readmission::default();
        search.add([bad.clone(), good.concat()].concat());
        let (mut refusals, mut cleared, mut trials) = (0, 0, 0);
        while cleared < 9 {
            trials += 1;
            let used = |owner: &str| Some(if owner == "attacker" { refusals } else { 0 });
            let group = search.next(used).unwrap().to_vec();
            if group.iter().any(|subject| &*subject.node.key.namespace == "attacker") {
                refusals += 1;
                search.refused(|_| true);
            } else {
                cleared += group.len();
                search.accepted(|_| true);
            }
        }
        assert!(trials <= 6 && refusals <= 2, "{trials} trials, {refusals} refusals");
        assert_eq!(search.owners(), BTreeSet::from(["attacker".into()]));
        assert_eq!(search.next(|_| None), None, "it has to wait now");
        assert!(!search.is_done() && search.contents().len() == 100);
        assert!(search.next(|_| Some(9)).is_some());
    }

    #[test]
    fn a_group_on_trial_that_has_to_wait_is_tried_later() {
        let mut search = Readmission::default();
        search.add(of_owner("a", 2));
        let first = search.next(|_| Some(0)).unwrap().to_vec();
        assert_eq!(search.next(|_| None), None);
        assert_eq!(search.testing(), None);
        assert_eq!(search.next(|_| Some(0)).unwrap(), first);
    }

    #[test]
    fn what_is_not_answered_keeps_no_other_subject_waiting_and_is_tried_again_later() {
        let all = subjects(4);
        let mut search = Readmission::default();
        search.add(all.clone());
        let mut cleared = BTreeSet::new();
        // Every trial with the first subject stays without an answer.
        while let Some(group) = search.next(|_| Some(0)) {
            if group.contains(&all[0]) {
                search.not_answered(0);
            } else if let Finding::Cleared(group) = search.accepted(|_| true) {
                cleared.extend(group);
            }
        }
        assert_eq!(cleared, all[1..].iter().cloned().collect());
        for times in 0..7 {
            let until = PARKED_MS << times.min(PARKED_DOUBLINGS);
            search.unpark(until - 1);
            assert_eq!(search.next(|_| Some(0)), None, "after {times} more");
            assert!(!search.is_done());
            assert_eq!(search.contents().len(), 1, "it stays suspected");
            search.unpark(until);
            assert_eq!(search.next(|_| Some(0)).unwrap(), [all[0].clone()]);
            search.not_answered(0);
        }
        search.unpark(u64::MAX);
        assert_eq!(search.next(|_| Some(0)).unwrap(), [all[0].clone()]);
        search.accepted(|_| true);
        assert!(search.is_done());
    }
}
