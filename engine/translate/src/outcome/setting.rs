//! Settings of a policy, field by field, as contents that an Envoy can refuse: attribution can distinguish a policy
//! from the routes, hosts and route configurations that contain its settings.
//!
//! A field is tried as the only setting of a route. The settings of a policy do not depend on its targets, so that one
//! trial is sufficient for all of them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use holdfast_api::object::Age;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::sparse::Sparse;
use holdfast_envoy::model::{Action, Forward, Match, PathRank, Precedence, Route, WeightedBackend};
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Version;

use super::addition::Addition;
use super::route::Rendered;
use crate::precedence::fill::fill;
use crate::precedence::merge::{Merged, Origins as OfFields, merge};
use crate::precedence::settings::{Field, Piece, Settings};

/// Name of the route that a policy is tried with.
const TRIAL: &str = "trial";

/// Settings of a policy. The contents are computed on first use: a policy that is never a suspect is never encoded for
/// it.
#[derive(Debug)]
pub struct PolicySettings {
    policy: ObjectKey,
    pieces: Settings,
    contents: OnceLock<BTreeMap<Field, Content>>,
}

impl PolicySettings {
    /// Creates the settings of this policy.
    pub fn new(policy: ObjectKey, pieces: Settings) -> Self {
        Self { policy, pieces, contents: OnceLock::new() }
    }

    /// Returns the contents of the settings, by field.
    pub fn contents(&self) -> &BTreeMap<Field, Content> {
        let one = |(field, piece): (&Field, &Piece)| (*field, content(&self.policy, field, piece));
        self.contents.get_or_init(|| self.pieces.iter().map(one).collect())
    }

    /// Returns the unit that is responsible for a field.
    pub(super) fn node(&self, field: Field) -> Node {
        match self.pieces.get(field) {
            Some(Piece::Connection(part)) if part.only_observes() => {
                Node::section(self.policy.clone(), format!("default.{field}"))
            }
            Some(piece) if piece.only_observes() => Node::section(self.policy.clone(), field),
            _ => Node::whole(self.policy.clone()),
        }
    }

    /// Returns the settings without the fields that have these contents.
    pub(super) fn without(&self, contents: &BTreeSet<Content>) -> Self {
        let is_left = |field: Field| self.contents().get(field).is_none_or(|content| !contents.contains(content));
        let pieces = self.pieces.iter().filter(|(field, _)| is_left(field));
        Self::new(self.policy.clone(), pieces.map(|(field, piece)| (*field, piece.clone())).collect())
    }

    /// Checks whether the contents were computed.
    pub fn is_computed(&self) -> bool {
        self.contents.get().is_some()
    }
}

impl Deref for PolicySettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.pieces
    }
}

/// Contents are derived from the other fields.
impl PartialEq for PolicySettings {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy && self.pieces == other.pieces
    }
}

/// A setting that routes get from another object: a field of a policy, or an addition of an HTTPProxy.
#[derive(Clone, Debug)]
pub struct PolicySetting(SettingSource);

/// The source of a setting.
#[derive(Clone, Debug)]
enum SettingSource {
    Policy { field: Field, settings: Arc<PolicySettings> },
    Proxy(Arc<Addition>),
}

impl PolicySetting {
    /// Creates the setting of a policy in a field.
    pub fn new(field: Field, settings: Arc<PolicySettings>) -> Self {
        Self(SettingSource::Policy { field, settings })
    }

    /// Creates the setting of an HTTPProxy.
    pub(crate) fn added(addition: Arc<Addition>) -> Self {
        Self(SettingSource::Proxy(addition))
    }

    /// Returns the addition of an HTTPProxy; `None` for a setting of a policy.
    pub fn addition(&self) -> Option<&Arc<Addition>> {
        match &self.0 {
            SettingSource::Policy { .. } => None,
            SettingSource::Proxy(addition) => Some(addition),
        }
    }

    /// Returns the policy or HTTPProxy.
    pub fn policy(&self) -> &ObjectKey {
        match &self.0 {
            SettingSource::Policy { settings, .. } => &settings.policy,
            SettingSource::Proxy(addition) => &addition.node.key,
        }
    }

    /// Returns the content of the setting.
    pub fn content(&self) -> Content {
        match &self.0 {
            // The content of a field without a setting is never requested.
            SettingSource::Policy { field, settings } => {
                settings.contents().get(*field).copied().unwrap_or(Content([0; 16]))
            }
            SettingSource::Proxy(addition) => addition.content(),
        }
    }

    /// Returns the responsible unit: the policy, only the part of it that observes requests, or the part of an
    /// HTTPProxy.
    pub fn node(&self) -> Node {
        match &self.0 {
            SettingSource::Policy { field, settings } => settings.node(field),
            SettingSource::Proxy(addition) => addition.node.clone(),
        }
    }

    /// Checks whether the setting is for listeners, and not for routes.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.piece(), Some(Piece::Connection(_)))
    }

    fn field(&self) -> &str {
        match &self.0 {
            SettingSource::Policy { field, .. } => field,
            SettingSource::Proxy(addition) => &addition.node.section,
        }
    }

    fn piece(&self) -> Option<&Piece> {
        match &self.0 {
            SettingSource::Policy { field, settings } => settings.pieces.get(*field),
            SettingSource::Proxy(_) => None,
        }
    }
}

impl PartialEq for PolicySetting {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (
                SettingSource::Policy { field, settings },
                SettingSource::Policy { field: other_field, settings: others },
            ) => {
                let same = || self.policy() == other.policy() && self.piece() == other.piece();
                field == other_field && (Arc::ptr_eq(settings, others) || same())
            }
            (SettingSource::Proxy(addition), SettingSource::Proxy(other)) => {
                Arc::ptr_eq(addition, other) || addition == other
            }
            _ => false,
        }
    }
}

impl Eq for PolicySetting {}

impl PartialOrd for PolicySetting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Contents are computed only if one policy has two values of one field.
impl Ord for PolicySetting {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = (self.policy(), self.field()).cmp(&(other.policy(), other.field()));
        by_name.then_with(|| if self == other { Ordering::Equal } else { self.content().0.cmp(&other.content().0) })
    }
}

/// Returns the content of a policy's setting in a field.
fn content(key: &ObjectKey, field: Field, piece: &Piece) -> Content {
    let (bytes, _) = tried(key, field, piece).encoded(ListenerContext { https: false, port: 0 });
    // A route does not contain every setting, so the debug form of the setting is added.
    let name = format!("{key} sets {field}: {piece:?} ");
    let text: Vec<u8> = name.bytes().chain(bytes).collect();
    Content(*Version::of(&text).as_bytes())
}

/// Returns the effective settings of the policies of a scope.
pub(crate) fn in_scope<'p>(
    origins: &OfFields,
    settings: impl Fn(&ObjectKey) -> Option<&'p Arc<PolicySettings>>,
) -> BTreeSet<PolicySetting> {
    let each = origins.iter().flat_map(|(field, keys)| keys.iter().map(move |key| (field, key)));
    each.filter_map(|(field, policy)| Some(PolicySetting::new(field, settings(policy)?.clone()))).collect()
}

/// Returns a route with this setting only.
pub(super) fn tried(key: &ObjectKey, field: Field, piece: &Piece) -> Rendered {
    let settings = Settings::from([(field, piece.clone())]);
    let merged: Merged = merge(std::iter::once((key, &settings)));
    let mut route = blank(key);
    fill(&merged, |variable| Some(variable.to_owned()), false, &mut route);
    Rendered::new(route)
}

/// Returns a route without backend and without settings.
pub(crate) fn blank(key: &ObjectKey) -> Route {
    let nowhere = WeightedBackend {
        backend: None,
        weight: 1,
        request_headers: Sparse::default(),
        response_headers: Sparse::default(),
        host: None,
        cookies: Vec::new(),
    };
    let precedence = Precedence {
        lent: false,
        above: Vec::new(),
        path: PathRank::Last,
        any_method: true,
        headers: Reverse(0),
        query: Reverse(0),
        narrowed: false,
        age: Age::default(),
        rule: 0,
        entry: 0,
        share: 0,
        kind: key.kind.clone(),
    };
    let action = Action::Forward(Box::new(Forward { backends: vec![nowhere], ..Forward::default() }));
    Route::bare(key.clone(), TRIAL.into(), precedence, Match::any(), action, "".into())
}
