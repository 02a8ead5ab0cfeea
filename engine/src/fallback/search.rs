//! The search on the probe: what is unproven is tried there as a whole; of what is refused each part alone, and parts that
//! are taken alone and refused together by their pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node};
use holdfast_xds::{ResourceType, Version};

use super::around::Around;
use super::interaction::{Found, Interaction, in_order};
use super::line::Line;
use super::rollout::{Stage, next};
use super::suspects::Suspects;
use super::trials::{self, Item};
use crate::trial::{Outcome, Trial, Tried};

/// Parts of one refused resource that are tried alone, at most; of more the first by object.
pub(crate) const SUSPECTS_MAX: usize = 4096;
/// What is said of content that nobody answered to.
pub(crate) const SILENCE: &str = "Envoy died on it or fell silent";

/// What is under way on the probe.
#[derive(Debug, Default)]
pub(crate) struct Search {
    expected: BTreeMap<u64, Expected>,
    refused: Vec<(ResourceType, Arc<str>, Version, String)>,
    culprits: usize,
    interaction: Option<(Arc<str>, Version, Interaction)>,
    rounds: u32,
}

/// What a trial is about.
#[derive(Clone, Debug)]
enum Expected {
    Whole(ResourceType, Arc<str>, Version),
    Part(Node, Content),
    Together,
}

impl Search {
    /// A search in something that is known to be refused.
    pub(super) fn of_what_is_known() -> Self {
        Self { rounds: 1, ..Self::default() }
    }

    /// A resource as a whole is on the probe.
    pub(crate) fn expect_whole(&mut self, id: u64, kind: ResourceType, name: Arc<str>, version: Version) {
        self.expected.insert(id, Expected::Whole(kind, name, version));
    }

    /// Is this trial one of ours?
    pub(crate) fn expects(&self, id: u64) -> bool {
        self.expected.contains_key(&id)
    }
}

impl Line {
    /// The probe has answered.
    pub(crate) fn tried(&mut self, tried: &Tried, around: &mut Around<'_>) {
        let Some(mut search) = self.search.take() else { return };
        let Some(expected) = search.expected.remove(&tried.id) else {
            self.search = Some(search);
            return;
        };
        let refused = match &tried.outcome {
            Outcome::Accepted => None,
            Outcome::Refused { message } => Some(message.clone()),
            Outcome::Silent => Some(SILENCE.to_owned()),
            // Nothing is learnt; the Envoys of the fleet will tell.
            Outcome::Unavailable => None,
        };
        let accepted = tried.outcome == Outcome::Accepted;
        match (expected, refused) {
            (Expected::Whole(kind, name, version), None) => {
                self.proof.note_tried_version(version);
                if accepted {
                    self.note_tried(kind, &name, &version);
                }
            }
            (Expected::Whole(kind, name, version), Some(message)) => {
                search.refused.push((kind, name, version, message))
            }
            (Expected::Part(node, content), Some(message)) => {
                search.culprits += 1;
                self.convict(content, &node, Detected::Probe, &message, Vec::new(), around);
            }
            (Expected::Part(..), None) => {}
            (Expected::Together, refused) => {
                if let Some((_, _, interaction)) = &mut search.interaction {
                    if refused.is_some() { interaction.refused() } else { interaction.accepted() }
                }
            }
        }
        self.search_on(search, around);
    }

    /// Goes on where everything that was asked is answered.
    pub(super) fn search_on(&mut self, mut search: Search, around: &mut Around<'_>) {
        if !search.expected.is_empty() {
            self.search = Some(search);
            return;
        }
        if let Some((name, version, mut interaction)) = search.interaction.take() {
            match interaction.next() {
                Some(Found::Try(items)) => {
                    let Some(context) = self.form(&name, &version).map(|form| form.context) else {
                        return self.searched(around);
                    };
                    let body = trials::together(items.iter(), context);
                    let id = next(around);
                    around.trials.push(Trial { id, kind: ResourceType::Route, name: name.clone(), body });
                    search.expected.insert(id, Expected::Together);
                    self.attribution.round();
                    search.interaction = Some((name, version, interaction));
                    self.search = Some(search);
                    return;
                }
                Some(Found::Blamed(culprit, witness)) => {
                    let message = match &witness {
                        Some(witness) => format!("refused together with {}", witness.rendered.route.key),
                        None => "refused together with what is served".to_owned(),
                    };
                    let witnesses = witness.iter().map(|witness| witness.content).collect();
                    let node = culprit.rendered.node();
                    self.convict(culprit.content, &node, Detected::Probe, &message, witnesses, around);
                }
                None => {}
            }
            return self.searched(around);
        }
        let refused = std::mem::take(&mut search.refused);
        if refused.is_empty() {
            if search.culprits == 0
                && search.rounds > 0
                && let Some(interaction) = self.together(around)
            {
                search.interaction = Some(interaction);
                return self.search_on(search, around);
            }
            return self.searched(around);
        }
        search.rounds += 1;
        for (kind, name, version, message) in refused {
            self.look_into(&mut search, kind, &name, version, &message, around);
        }
        self.search_on(search, around);
    }

    /// A resource was refused by the probe: its parts are tried alone.
    pub(super) fn look_into(
        &mut self,
        search: &mut Search,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        message: &str,
        around: &mut Around<'_>,
    ) {
        self.hold.refuse_version(kind, name, version, &self.build.clone(), message);
        self.attribution.begin(around.now_ms);
        if kind != ResourceType::Route {
            search.culprits += 1;
            return self.convict_resource(kind, name, version, Detected::Probe, message, around);
        }
        let Some((suspects, context)) = self.suspects(name, &version) else { return };
        self.attribution.round();
        let parts = suspects.into_iter().flat_map(|(node, parts)| {
            parts.into_iter().map(move |(content, suspect)| (node.clone(), content, suspect))
        });
        for (node, content, suspect) in parts.take(SUSPECTS_MAX) {
            let id = next(around);
            let body = trials::alone(&suspect.rendered, context);
            around.trials.push(Trial { id, kind, name: suspect.rendered.route.name.clone(), body });
            search.expected.insert(id, Expected::Part(node, content));
        }
    }

    /// The search for parts that do not go together, of the first route configuration that the probe refuses whole.
    fn together(&self, _: &Around<'_>) -> Option<(Arc<str>, Version, Interaction)> {
        let routes = self.wanted_or_refused();
        routes.into_iter().find_map(|(name, version)| {
            let form = self.form(&name, &version)?;
            let nothing = Suspects::new();
            let changed = self.suspects(&name, &version).map_or(nothing, |(suspects, _)| suspects);
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
            Some((name, version, Interaction::new(items, unchanged)?))
        })
    }

    fn wanted_or_refused(&self) -> Vec<(Arc<str>, Version)> {
        self.hold.refused_now(ResourceType::Route)
    }

    /// The probe has told all that it can: what is known now is put into force.
    fn searched(&mut self, around: &mut Around<'_>) {
        self.search = None;
        self.stage = Stage::Settled;
        self.settle(around);
    }

    /// The probe took a resource as a whole.
    fn note_tried(&mut self, kind: ResourceType, name: &Arc<str>, version: &Version) {
        if kind != ResourceType::Route {
            return;
        }
        let Some((suspects, _)) = self.suspects(name, version) else { return };
        for content in suspects.values().flat_map(|parts| parts.keys()) {
            self.proof.note_tried(*content);
        }
    }
}
