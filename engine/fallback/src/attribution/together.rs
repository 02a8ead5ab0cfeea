//! Search among parts that are accepted alone and refused together: the parts for each resource type, and the next
//! trial.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::{Content, Detected};
use holdfast_xds::{ResourceType, Version};

use super::chains;
use super::clusters::{self, Known};
use super::interaction::{Found, Interaction, in_order};
use super::search::Search;
use super::suspect_inputs::SuspectInputs;
use super::trials::{self, Item};
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::evidence::suspects::Suspects;
use crate::scope::FallbackScope;

/// A search among the parts of one refused resource.
#[derive(Debug)]
pub(crate) enum Together {
    /// Routes of a route configuration.
    Routes(Arc<str>, Version, Interaction<Item>),
    /// Objects that a cluster is made of: the changed ones, and the search among them.
    Objects(Arc<str>, Vec<Subject>, Interaction<Subject>),
    /// Chains and filters of a listener: the changed ones, and the search among them.
    Chains(Arc<str>, Version, Vec<Subject>, Interaction<Subject>),
}

impl Together {
    /// Records that the set was accepted.
    pub(crate) fn accepted(&mut self) {
        match self {
            Together::Routes(_, _, search) => search.accepted(),
            Together::Objects(_, _, search) => search.accepted(),
            Together::Chains(_, _, _, search) => search.accepted(),
        }
    }

    /// Records that the set was refused.
    pub(crate) fn refused(&mut self) {
        match self {
            Together::Routes(_, _, search) => search.refused(),
            Together::Objects(_, _, search) => search.refused(),
            Together::Chains(_, _, _, search) => search.refused(),
        }
    }
}

/// Returns the search for interacting parts, for the first resource that the probe refuses as a whole.
pub(crate) fn together(state: &SuspectInputs<'_>, inputs: &StepInputs<'_>) -> Option<Together> {
    let of = |kind| state.hold.refused_now(kind).into_iter();
    let clusters = of(ResourceType::Cluster).find_map(|(name, _)| objects_together(state, name, inputs));
    let listeners =
        || of(ResourceType::Listener).find_map(|(name, version)| chains_together(state, name, version, inputs));
    let routes = || of(ResourceType::Route).find_map(|(name, version)| routes_together(state, name, version));
    clusters.or_else(listeners).or_else(routes)
}

fn routes_together(state: &SuspectInputs<'_>, name: Arc<str>, version: Version) -> Option<Together> {
    let form = state.evidence.forms.of(&name, &version)?;
    let changed = state.evidence.suspects(&name, &version).map_or_else(Suspects::new, |(suspects, _)| suspects);
    let changed: BTreeSet<Content> = changed.values().flat_map(|parts| parts.keys().copied()).collect();
    let items = form.composition.iter().flat_map(|(host, parts)| {
        parts.iter().map(|(content, rendered)| Item {
            host: host.clone(),
            content: *content,
            rendered: rendered.clone(),
        })
    });
    let (items, unchanged) = in_order(
        items,
        |item| changed.contains(&item.content),
        |item| (item.rendered.route.precedence.age.clone(), item.host.clone()),
    );
    Some(Together::Routes(name, version, Interaction::new(items, unchanged)?))
}

fn objects_together(state: &SuspectInputs<'_>, name: Arc<str>, inputs: &StepInputs<'_>) -> Option<Together> {
    let suspects = clusters::cluster_suspects(state, &name, inputs);
    let search = Interaction::new(suspects.clone(), 0)?;
    (suspects.len() > 1).then_some(Together::Objects(name, suspects, search))
}

fn chains_together(
    state: &SuspectInputs<'_>,
    name: Arc<str>,
    version: Version,
    inputs: &StepInputs<'_>,
) -> Option<Together> {
    let mut suspects = chains::chain_suspects(state, &name, version, inputs);
    // Nothing can be tried without a chain, but a chain can be tried without its filters and policy settings.
    suspects.sort_by_key(|subject| (chains::is_policy(subject, inputs), !chains::is_chain(subject)));
    let search = Interaction::new(suspects.clone(), 0)?;
    (suspects.len() > 1).then_some(Together::Chains(name, version, suspects, search))
}

impl FallbackScope {
    /// Continues a search. Returns it if a trial was started; otherwise the search has ended, with a conviction or
    /// without one.
    pub(super) fn try_on(
        &mut self,
        together: Together,
        search: &mut Search,
        inputs: &mut StepInputs<'_>,
    ) -> Option<Together> {
        match together {
            Together::Routes(name, version, mut interaction) => {
                let (culprit, witness) = match interaction.next()? {
                    Found::Try(items) => {
                        let context = self.evidence.forms.of(&name, &version)?.context;
                        let body = trials::together(items.iter(), context);
                        search.try_together(ResourceType::Route, name.clone(), body, inputs);
                        return Some(Together::Routes(name, version, interaction));
                    }
                    Found::Blamed(culprit, witness) => (culprit, witness),
                };
                let message = refused_with(witness.as_ref().map(|witness| witness.rendered.route.key.to_string()));
                let witnesses = witness.iter().map(|witness| witness.content).collect();
                let node = culprit.rendered.node();
                self.convict(culprit.content, &node, Detected::Probe, &message, witnesses, inputs);
            }
            Together::Objects(name, all, mut interaction) => loop {
                match interaction.next()? {
                    Found::Try(today) => {
                        match clusters::known_with(&SuspectInputs::of(self), &name, &today, &all, inputs) {
                            Known::Good => interaction.accepted(),
                            Known::Refused => interaction.refused(),
                            Known::Nothing(bodies) => {
                                for body in bodies.into_iter().take(1) {
                                    search.try_together(ResourceType::Cluster, name.clone(), body, inputs);
                                }
                                return Some(Together::Objects(name, all, interaction));
                            }
                        }
                    }
                    Found::Blamed(culprit, witness) => {
                        // An edit of the other object changes the cluster, and so the refused content.
                        let message = refused_with(witness.map(|witness| witness.node.key.to_string()));
                        self.convict_subject(&culprit, Detected::Probe, &message, inputs);
                        break;
                    }
                }
            },
            Together::Chains(name, version, all, mut interaction) => match interaction.next()? {
                Found::Try(these) => {
                    let body = chains::listener_with(&SuspectInputs::of(self), &name, version, &these, &all, inputs)?;
                    search.try_together(ResourceType::Listener, name.clone(), body, inputs);
                    return Some(Together::Chains(name, version, all, interaction));
                }
                Found::Blamed(culprit, witness) => {
                    let message = refused_with(witness.as_ref().map(|witness| witness.node.key.to_string()));
                    let witnesses: Vec<Content> =
                        witness.iter().flat_map(|witness| witness.contents.keys().copied()).collect();
                    for (content, node) in &culprit.contents {
                        self.convict(*content, node, Detected::Probe, &message, witnesses.clone(), inputs);
                    }
                }
            },
        }
        None
    }
}

fn refused_with(witness: Option<String>) -> String {
    witness.map_or_else(
        || "refused together with the configuration that is served".into(),
        |with| format!("refused together with {with}"),
    )
}
