//! Members of a scope: one record for each Envoy, by node.
//!
//! The table knows connections, the times of answers, and outliers. It does not know what the Envoys are offered or
//! what they try: callers give it times and configurations, and it selects Envoys and returns facts about them.
//!
//! A record can exist without a connection: an answer can arrive for an Envoy that is not connected, and a replica that
//! becomes a follower keeps what it knows about answers of remote Envoys. Only connected Envoys are selected or counted;
//! outliers are listed with or without a connection.

mod outlier;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
pub use outlier::Outlier;

/// The record of one Envoy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// The number of open streams; 0 if the Envoy is not connected.
    streams: usize,
    /// Whether the Envoy is connected to another replica.
    is_remote: bool,
    /// The time of the connection, in milliseconds of Unix time, if the Envoy connected without a configuration and has
    /// not accepted any yet.
    fresh_since_ms: Option<u64>,
    /// Whether the Envoy has not answered in time, and has not answered anything since.
    is_silent: bool,
    /// The time of the last answer, in milliseconds of Unix time.
    last_answer_ms: Option<u64>,
    /// What the Envoy refuses and others of its build accept, now or earlier.
    outlier: Option<Outlier>,
    /// The newest listeners and route configurations that the Envoy accepted since it connected.
    accepted: Snapshot,
}

impl Member {
    fn is_connected(&self) -> bool {
        self.streams > 0
    }

    fn is_outlier(&self) -> bool {
        self.outlier.as_ref().is_some_and(Outlier::is_active)
    }

    /// Whether the Envoy connected without a configuration and has not accepted any yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh_since_ms.is_some()
    }

    /// Whether the Envoy is connected to another replica.
    pub(crate) fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns a configuration with the listeners and route configurations that the Envoy accepted itself. Those of
    /// neither configuration were deleted.
    fn as_accepted(&self, assumed: &Snapshot, everyone: Option<&Snapshot>) -> Snapshot {
        let mut has = assumed.clone();
        for kind in [ResourceType::Listener, ResourceType::Route] {
            let exists = |name: &str| {
                let is_everyones = everyone.is_some_and(|everyone| everyone.get(kind, name).is_some());
                is_everyones || assumed.get(kind, name).is_some()
            };
            let own = self.accepted.of(kind).values().filter(|resource| exists(&resource.name));
            own.for_each(|resource| has.insert(kind, resource.clone()));
        }
        has
    }

    /// Checks whether the record holds nothing.
    fn is_empty(&self) -> bool {
        let Self { streams, is_remote, fresh_since_ms, is_silent, last_answer_ms, outlier, accepted: _ } = self;
        let is_known = *streams > 0 || *is_remote || *is_silent;
        !is_known
            && fresh_since_ms.is_none()
            && last_answer_ms.is_none()
            && outlier.as_ref().is_none_or(|outlier| !outlier.is_active())
    }
}

/// The Envoys of a scope.
#[derive(Debug, Default)]
pub struct Members {
    by_node: BTreeMap<Arc<str>, Member>,
    /// If every connected Envoy is an outlier: the time at which their refusals are accepted, in milliseconds of Unix
    /// time.
    outliers_until_ms: Option<u64>,
    /// Whether all Envoys were outliers and their refusals were accepted, and no other Envoy has connected since.
    believes_outliers: bool,
}

/// Connections.
impl Members {
    /// Records a stream of an Envoy. An Envoy that does not resume has no configuration.
    pub(crate) fn connect(&mut self, node: &Arc<str>, is_remote: bool, resumes: bool, now_ms: u64) {
        self.believes_outliers = false;
        let member = self.of_mut(node);
        member.streams += 1;
        member.is_remote |= is_remote;
        if !resumes {
            member.fresh_since_ms = Some(now_ms);
        }
    }

    /// Records the end of a stream. Returns the record of the Envoy, which is removed, if that was its last stream.
    pub(crate) fn disconnect(&mut self, node: &str) -> Option<Member> {
        let member = self.by_node.get_mut(node).filter(|member| member.is_connected())?;
        member.streams -= 1;
        match member.is_connected() {
            true => None,
            false => self.by_node.remove(node),
        }
    }

    /// Removes the connections of all remote Envoys, and what they refuse as outliers.
    pub(crate) fn disconnect_remote(&mut self) {
        for member in self.by_node.values_mut().filter(|member| member.is_remote) {
            (member.streams, member.is_remote, member.outlier) = (0, false, None);
        }
        self.remove_empty();
    }

    /// Returns the nodes of the connected Envoys, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.connected().map(|(node, _)| node)
    }

    /// Returns the nodes of the connected Envoys of this replica, in order.
    pub(crate) fn local_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.connected().filter(|(_, member)| !member.is_remote).map(|(node, _)| node)
    }

    /// Returns the nodes of the Envoys of other replicas, in order.
    pub(crate) fn remote_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.connected().filter(|(_, member)| member.is_remote).map(|(node, _)| node)
    }

    /// Returns the connected Envoys with the number of their streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.connected().map(|(node, member)| (node, member.streams))
    }

    /// Checks whether no Envoy is connected.
    pub fn is_empty(&self) -> bool {
        self.connected().next().is_none()
    }

    /// Checks whether an Envoy is connected.
    pub fn is_connected(&self, node: &str) -> bool {
        self.of(node).is_some_and(Member::is_connected)
    }

    /// Checks whether an Envoy is connected to another replica.
    pub(crate) fn is_remote(&self, node: &str) -> bool {
        self.of(node).is_some_and(Member::is_remote)
    }

    /// Checks whether an Envoy is connected to this replica.
    pub(crate) fn is_local(&self, node: &str) -> bool {
        self.is_connected(node) && !self.is_remote(node)
    }
}

/// Answers.
impl Members {
    /// Records an answer of an Envoy; returns true if the Envoy was silent before.
    pub(crate) fn answered(&mut self, node: &Arc<str>, now_ms: u64) -> bool {
        let member = self.of_mut(node);
        member.last_answer_ms = Some(now_ms);
        std::mem::take(&mut member.is_silent)
    }

    /// Records that an Envoy has not answered in time.
    pub(crate) fn fell_silent(&mut self, node: &Arc<str>) {
        self.of_mut(node).is_silent = true;
    }

    /// Records that an Envoy accepted a configuration; returns true if it had none before.
    pub(crate) fn filled(&mut self, node: &str) -> bool {
        self.by_node.get_mut(node).is_some_and(|member| member.fresh_since_ms.take().is_some())
    }

    /// Counts Envoys that connected without a configuration this time ago like the others; returns true if there were
    /// any.
    pub(crate) fn end_waits_for_first_answers(&mut self, now_ms: u64, patience_ms: u64) -> bool {
        let mut any = false;
        for member in self.by_node.values_mut() {
            any |= member.fresh_since_ms.take_if(|since_ms| since_ms.saturating_add(patience_ms) <= now_ms).is_some();
        }
        any
    }

    /// Checks whether an Envoy connected without a configuration and has not accepted any yet.
    pub(crate) fn is_fresh(&self, node: &str) -> bool {
        self.of(node).is_some_and(Member::is_fresh)
    }

    /// Checks whether an Envoy has not answered in time, and has not answered anything since.
    pub(crate) fn is_silent(&self, node: &str) -> bool {
        self.of(node).is_some_and(|member| member.is_silent)
    }

    /// Checks whether an Envoy has answered anything after this time.
    pub(crate) fn has_answered_since(&self, node: &str, since_ms: u64) -> bool {
        self.of(node).and_then(|member| member.last_answer_ms).is_some_and(|last_answer_ms| last_answer_ms > since_ms)
    }

    /// Checks whether another Envoy than this one answers.
    pub(crate) fn others_answer(&self, node: &str) -> bool {
        self.connected().any(|(known, member)| **known != *node && !member.is_silent)
    }
}

/// Selection of Envoys.
impl Members {
    /// Selects the Envoy of this replica that tries new content: one that answers, if there is one, and of these one
    /// that has accepted what the others accepted. `has_untried`: whether an Envoy has not.
    pub(crate) fn candidate_for_new_content(&self, has_untried: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let fit = self.connected().filter(|(_, member)| !member.is_outlier() && !member.is_remote);
        first(fit, |member| member.is_silent, has_untried)
    }

    /// Selects the Envoy for a trial of suspects: an Envoy that has the proven configuration, if anything is proven; an
    /// Envoy of another replica only if there is no other. `has_untried`: whether an Envoy has not accepted what others
    /// accepted.
    pub(crate) fn candidate_for_trial(
        &self,
        is_anything_proven: bool,
        has_untried: impl Fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        let fit = self.with_proven_configuration(is_anything_proven);
        first(fit, |member| (member.is_remote, member.is_silent), has_untried)
    }

    /// Selects an Envoy that has the proven configuration, other than the one that refused: one that answers, if there
    /// is one. `has_untried`: whether an Envoy has not accepted what others accepted.
    pub(crate) fn candidate_for_second_witness(
        &self,
        refuser: &str,
        is_anything_proven: bool,
        has_untried: impl Fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        let fit = self.with_proven_configuration(is_anything_proven).filter(|(node, _)| ***node != *refuser);
        first(fit, |member| (member.is_silent, member.is_remote), has_untried)
    }

    fn with_proven_configuration(&self, is_anything_proven: bool) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        let fit = self.connected().filter(|(_, member)| !member.is_outlier());
        fit.filter(move |(_, member)| !is_anything_proven || member.fresh_since_ms.is_none())
    }
}

/// Outliers.
impl Members {
    /// Records that an Envoy refused a version and keeps an earlier configuration, while others have the refused
    /// version. `last` is the earlier configuration if the Envoy was no outlier before.
    pub(crate) fn keeps(
        &mut self,
        node: &Arc<str>,
        slot: (ResourceType, Arc<str>),
        version: Version,
        message: &str,
        last: &Snapshot,
    ) {
        let outlier = self.of_mut(node).outlier.get_or_insert_with(|| Outlier::new(last));
        outlier.begin(last);
        outlier.refuse(slot, version, message);
    }

    /// Counts a refusal of an outlier.
    pub(crate) fn count_refusal(&mut self, node: &str, now_ms: u64) {
        let outlier = self.by_node.get_mut(node).and_then(|member| member.outlier.as_mut());
        outlier.into_iter().for_each(|outlier| outlier.count(now_ms));
    }

    /// Ends the pauses of outliers that are over; returns true if there were any.
    pub(crate) fn resume_outliers(&mut self, now_ms: u64) -> bool {
        let outliers = self.by_node.values_mut().filter_map(|member| member.outlier.as_mut());
        outliers.fold(false, |any, outlier| any | outlier.resume(now_ms))
    }

    /// Returns the earliest end of a pause of an outlier, in milliseconds of Unix time.
    pub(crate) fn pause_until_ms(&self) -> Option<u64> {
        self.outliers().filter_map(|(_, outlier)| outlier.pauses_until_ms()).min()
    }

    /// Records a listener or a route configuration that an Envoy accepted.
    pub(crate) fn accepted(&mut self, node: &str, kind: ResourceType, resource: &Arc<Resource>) {
        let member = self.by_node.get_mut(node).filter(|member| member.is_connected());
        member.into_iter().for_each(|member| member.accepted.insert(kind, resource.clone()));
    }

    /// Checks whether an Envoy has accepted route configurations since it connected.
    pub(crate) fn has_accepted_routes(&self, node: &str) -> bool {
        self.of(node).is_some_and(|member| !member.accepted.of(ResourceType::Route).is_empty())
    }

    /// Returns a configuration with the listeners and route configurations that the Envoy has instead, as far as that
    /// is known.
    pub(crate) fn as_accepted(&self, node: &str, assumed: &Snapshot, everyone: Option<&Snapshot>) -> Snapshot {
        self.of(node).map_or_else(|| assumed.clone(), |member| member.as_accepted(assumed, everyone))
    }

    /// Records that an Envoy accepted a resource. If it had refused another version of that resource, it is no longer
    /// an outlier for it.
    pub(crate) fn came_back(
        &mut self,
        node: &str,
        slot: (ResourceType, &Arc<str>),
        version: Version,
        everyone: Option<&Snapshot>,
    ) {
        let Some(member) = self.by_node.get_mut(node) else { return };
        let outlier = member.outlier.as_mut().filter(|outlier| outlier.is_active());
        outlier.into_iter().for_each(|outlier| outlier.accept(slot, version, everyone));
    }

    /// Replaces the earlier configuration that an outlier keeps.
    pub(crate) fn replace_last(&mut self, node: &str, last: Snapshot) {
        if let Some(outlier) = self.by_node.get_mut(node).and_then(|member| member.outlier.as_mut()) {
            outlier.last = last;
        }
    }

    /// Returns all outliers, in order, with or without a connection.
    pub fn outliers(&self) -> impl Iterator<Item = (&Arc<str>, &Outlier)> {
        let active = self.by_node.iter().filter(|(_, member)| member.is_outlier());
        active.filter_map(|(node, member)| Some((node, member.outlier.as_ref()?)))
    }

    /// Makes Envoys outliers that are not sent the configuration of all Envoys, because they refused a part of it since
    /// they connected. `last` is their configuration.
    pub(crate) fn refuse_again(&mut self, everyone: &Snapshot, last: &Snapshot) -> bool {
        let members = self.by_node.values_mut().filter(|member| !member.is_remote);
        members.fold(false, |any, member| {
            let has = member.outlier.is_some().then(|| member.as_accepted(last, Some(everyone)));
            let outlier = member.outlier.as_mut().zip(has);
            any | outlier.is_some_and(|(outlier, has)| outlier.refuses_again(everyone, &has))
        })
    }

    /// Checks whether any Envoy has refused what others accepted since it connected.
    pub(crate) fn has_refused_alone(&self) -> bool {
        self.by_node.values().any(|member| member.outlier.is_some())
    }

    /// Records a version that an Envoy has refused, and that it is not sent again.
    pub(crate) fn remember_refused(
        &mut self,
        node: &Arc<str>,
        slot: &(ResourceType, Arc<str>),
        version: Version,
        message: &str,
    ) {
        let outlier = self.of_mut(node).outlier.get_or_insert_with(|| Outlier::new(&Snapshot::default()));
        outlier.remember(slot, version, message);
    }

    /// Removes and returns all outliers.
    pub(crate) fn take_outliers(&mut self) -> BTreeMap<Arc<str>, Outlier> {
        let all = self.by_node.iter_mut();
        let outliers = all.filter(|(_, member)| member.is_outlier());
        let outliers = outliers.filter_map(|(node, member)| Some((node.clone(), member.outlier.take()?))).collect();
        self.remove_empty();
        outliers
    }

    /// Records that the refusals of a fleet of outliers are accepted.
    pub(crate) fn believe_outliers(&mut self) {
        self.believes_outliers = true;
    }

    /// Checks whether the refusals of a fleet of outliers were accepted, and no other Envoy has connected since.
    pub(crate) fn believes_outliers(&self) -> bool {
        self.believes_outliers
    }

    /// Checks whether an Envoy is an outlier.
    pub(crate) fn is_outlier(&self, node: &str) -> bool {
        self.outlier(node).is_some()
    }

    /// Returns the refusals of an Envoy, if it is an outlier.
    pub fn outlier(&self, node: &str) -> Option<&Outlier> {
        self.of(node)?.outlier.as_ref().filter(|outlier| outlier.is_active())
    }

    /// Checks whether any connected Envoy is not an outlier.
    pub(crate) fn has_any_but_outliers(&self) -> bool {
        self.connected().any(|(_, member)| !member.is_outlier())
    }

    /// Returns the end of the wait for an Envoy that accepts what all connected ones refuse, in milliseconds of Unix
    /// time.
    pub(crate) fn outliers_until_ms(&self) -> Option<u64> {
        self.outliers_until_ms
    }

    /// Waits for an Envoy that accepts what all connected ones refuse; the wait begins when only outliers are
    /// connected, and ends without a result if their refusals may not be accepted. Returns true if it has ended because
    /// its time has passed.
    pub(crate) fn wait_for_another(&mut self, may_accept_refusals: bool, now_ms: u64, patience_ms: u64) -> bool {
        if self.is_empty() || self.has_any_but_outliers() || !may_accept_refusals {
            self.outliers_until_ms = None;
            return false;
        }
        let until_ms = *self.outliers_until_ms.get_or_insert(now_ms.saturating_add(patience_ms));
        let is_over = until_ms <= now_ms;
        if is_over {
            self.outliers_until_ms = None;
        }
        is_over
    }
}

/// Records of Envoys that change to another scope.
impl Members {
    /// Removes and returns the record of an Envoy.
    pub(crate) fn take(&mut self, node: &str) -> Option<Member> {
        self.by_node.remove(node)
    }

    /// Adds the record of an Envoy, which is no outlier among the Envoys of this scope.
    pub(crate) fn put(&mut self, node: &Arc<str>, mut member: Member) {
        member.outlier.as_mut().into_iter().for_each(Outlier::end);
        self.by_node.insert(node.clone(), member);
    }

    /// Returns the record of an Envoy.
    pub(crate) fn member(&self, node: &str) -> Option<&Member> {
        self.of(node)
    }
}

impl Members {
    fn connected(&self) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        self.by_node.iter().filter(|(_, member)| member.is_connected())
    }

    fn of(&self, node: &str) -> Option<&Member> {
        self.by_node.get(node)
    }

    fn of_mut(&mut self, node: &Arc<str>) -> &mut Member {
        self.by_node.entry(node.clone()).or_default()
    }

    fn remove_empty(&mut self) {
        self.by_node.retain(|_, member| !member.is_empty());
    }
}

/// Returns the first Envoy in this order. Of equal ones, one that has accepted what others accepted comes first.
fn first<'a, K: Ord>(
    fit: impl Iterator<Item = (&'a Arc<str>, &'a Member)>,
    order: impl Fn(&Member) -> K,
    has_untried: impl Fn(&str) -> bool,
) -> Option<Arc<str>> {
    let fit: Vec<_> = fit.collect();
    let least = fit.iter().map(|(_, member)| order(member)).min()?;
    let mut equal = fit.into_iter().filter(|(_, member)| order(member) == least).map(|(node, _)| node);
    let next = equal.next()?;
    let mut all = std::iter::once(next).chain(equal);
    Some(all.find(|node| !has_untried(node)).unwrap_or(next).clone())
}
