//! What a policy says, field by field, as contents that an Envoy can refuse: so that a policy is told apart from the
//! routes, hosts and route configurations that it stands in.
//!
//! A field is tried as the settings of a route that does nothing else. What a policy says is the same wherever it is
//! attached, so that one trial stands for all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Version;

use super::PolicyPlan;
use super::route::fill;
use crate::encode;
use crate::features::headers::HeaderEdits;
use crate::features::redirect::ListenerContext;
use crate::model::{Action, Forward, Match, PathRank, Precedence, Route, WeightedBackend};
use crate::object::Age;
use crate::policies::merge::{Merged, Origins as OfFields, merge};
use crate::policies::settings::{Field, Piece, Settings};
use crate::translate::route::Rendered;

/// The name of a route that a policy is tried with.
const TRIAL: &str = "trial";

/// Something that a policy says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Said {
    /// The policy.
    pub(crate) policy: ObjectKey,
    /// What it says.
    pub(crate) content: Content,
}

/// The contents of a policy by field.
pub(crate) type Contents = BTreeMap<Field, Content>;

/// The contents of what a policy says.
pub(super) fn contents(key: &ObjectKey, settings: &Settings) -> Contents {
    let one = |(field, piece): (&Field, &Piece)| {
        let (bytes, _) = tried(key, field, piece).encoded(ListenerContext { https: false, port: 0 });
        // Not all that is said shows on a route that does nothing else.
        let name = format!("{key} says {field}: {piece:?} ");
        let text: Vec<u8> = name.bytes().chain(bytes).collect();
        (*field, Content(*Version::of(&text).as_bytes()))
    };
    settings.iter().map(one).collect()
}

/// What those who said something in a scope said.
pub(super) fn in_scope<'p>(
    origins: &OfFields,
    plan: impl Fn(&ObjectKey) -> Option<&'p Arc<PolicyPlan>>,
) -> BTreeSet<Said> {
    let each = origins.iter().flat_map(|(field, keys)| keys.iter().map(move |key| (field, key)));
    let said = each.filter_map(|(field, policy)| {
        let content = *plan(policy)?.contents.get(field)?;
        Some(Said { policy: policy.clone(), content })
    });
    said.collect()
}

impl PolicyPlan {
    /// A route with what the policy says in the field that has this content.
    pub(crate) fn trial(&self, key: &ObjectKey, content: &Content) -> Option<Rendered> {
        let (field, _) = self.contents.iter().find(|(_, known)| *known == content)?;
        Some(tried(key, field, self.settings.get(field)?))
    }
}

impl PolicyPlan {
    /// The filters of chains that it needs, as contents.
    pub(crate) fn filters(&self) -> Vec<Content> {
        let nobody = ObjectKey::new("", "", "", "");
        let guards = merge(std::iter::once((&nobody, &*self.settings))).guards();
        guards.filters().iter().map(encode::chain_parts::filter_content).collect()
    }
}

/// A route on which only this is said.
fn tried(key: &ObjectKey, field: Field, piece: &Piece) -> Rendered {
    let settings = Settings::from([(field, piece.clone())]);
    let merged: Merged = merge(std::iter::once((key, &settings)));
    let mut route = empty(key);
    fill(&merged, |word| Some(word.to_owned()), &mut route);
    Rendered::new(route)
}

/// A route to nowhere.
fn empty(key: &ObjectKey) -> Route {
    let (request_headers, response_headers) = (HeaderEdits::default(), HeaderEdits::default());
    let nowhere = WeightedBackend { backend: None, weight: 1, request_headers, response_headers, cookies: Vec::new() };
    let precedence = Precedence {
        lent: false,
        path: PathRank::Last,
        any_method: true,
        headers: Reverse(0),
        query: Reverse(0),
        narrowed: false,
        age: Age::default(),
        rule: 0,
        entry: 0,
        kind: key.kind.clone(),
    };
    let action = Action::Forward(Box::new(Forward { backends: vec![nowhere], ..Forward::default() }));
    Route::bare(key.clone(), TRIAL.into(), precedence, Match::any(), action, "".into())
}
