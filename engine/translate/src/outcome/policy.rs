//! The outcome of a TrafficPolicy or ListenerPolicy, independent of its targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::inspect::chain_parts;
use holdfast_graph::{Content, Edge, Node, ObjectKey};

use super::route::Rendered;
use super::setting::{self, PolicySettings};
use super::{Outcome, Outcomes};
use crate::precedence::attachment::Target;
use crate::precedence::merge::merge;
use crate::precedence::rank::Rank;
use crate::precedence::settings::{Field, Piece};

/// Kinds of policies that are attached to Gateways, listeners and routes.
const KINDS: [&str; 2] = [kinds::LISTENER_POLICY, kinds::TRAFFIC_POLICY];

/// Checks whether a key is a policy of these kinds.
pub(crate) fn is_policy(key: &ObjectKey) -> bool {
    &*key.group == GROUP && KINDS.contains(&&*key.kind)
}

/// Extensions at fault: the class of the fault (content or reference) and all messages.
pub type Blamed = BTreeMap<ObjectKey, (Class, String)>;

/// Result of the translation of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyPlan {
    /// Rank among the policies of a level.
    pub rank: Rank,
    /// Settings of the policy.
    pub settings: Arc<PolicySettings>,
    /// Settings for listeners of single ports, by declared port; they replace `settings`.
    pub ports: BTreeMap<i64, Arc<PolicySettings>>,
    /// Reason why the policy cannot be enforced; unset if it can.
    pub unenforceable: Option<Unenforceable>,
    /// Faults of the policy.
    pub faults: Vec<Fault>,
    /// Extensions that make the policy unenforceable, with the reasons.
    pub blamed: Blamed,
    /// The policy itself has a fault.
    pub has_faults_of_its_own: bool,
    /// Targets of the policy.
    pub targets: Vec<Target>,
    /// Other objects that the policy was read from: Secrets, GatewayExtensions.
    pub secrets: Vec<ObjectKey>,
    /// Dependencies of the policy.
    pub edges: Vec<Edge>,
}

impl PolicyPlan {
    /// Returns the settings for a listener of this declared port.
    pub fn settings_at(&self, port: i32) -> &Arc<PolicySettings> {
        self.ports.get(&i64::from(port)).unwrap_or(&self.settings)
    }

    /// Returns all settings of the policy, at every port, as contents that an Envoy can refuse.
    pub fn contents(&self) -> impl Iterator<Item = (Field, Content)> {
        let all = std::iter::once(&self.settings).chain(self.ports.values());
        all.flat_map(|settings| settings.contents().iter().map(|(field, content)| (*field, *content)))
    }

    /// Checks whether the policy restricts access or request rates.
    pub fn guards(&self) -> bool {
        let mut pieces = self.settings.values().chain(self.ports.values().flat_map(|pieces| pieces.values()));
        pieces.any(Piece::guards)
    }

    /// Returns all fields with a setting.
    pub fn fields(&self) -> BTreeSet<Field> {
        self.settings.keys().chain(self.ports.values().flat_map(|pieces| pieces.keys())).copied().collect()
    }

    /// Returns a route with the setting of the policy that has this content.
    pub fn trial(&self, key: &ObjectKey, content: &Content) -> Option<Rendered> {
        let (field, _) = self.settings.contents().iter().find(|(_, known)| *known == content)?;
        Some(setting::tried(key, field, self.settings.get(field)?))
    }

    /// Returns the unit that is responsible for the setting with this content.
    pub fn node_of(&self, key: &ObjectKey, content: &Content) -> Node {
        let mut all = std::iter::once(&self.settings).chain(self.ports.values());
        let node = all.find_map(|settings| {
            let (field, _) = settings.contents().iter().find(|(_, known)| *known == content)?;
            Some(settings.node(field))
        });
        node.unwrap_or_else(|| Node::whole(key.clone()))
    }

    /// Checks whether the setting with this content protects requests.
    pub fn protects_by(&self, content: &Content) -> bool {
        let mut all = std::iter::once(&self.settings).chain(self.ports.values());
        all.any(|settings| {
            let mut fields = settings.contents().iter().filter(|(_, known)| *known == content);
            fields.any(|(field, _)| settings.get(field).is_none_or(Piece::protects))
        })
    }

    /// Returns the policy without the fields that have these contents.
    pub fn without(&self, contents: &BTreeSet<Content>) -> Self {
        let ports = self.ports.iter().map(|(port, settings)| (*port, Arc::new(settings.without(contents))));
        Self { settings: Arc::new(self.settings.without(contents)), ports: ports.collect(), ..self.clone() }
    }

    /// Checks whether a filter calls a service to which the Gateway lacks its client certificate. What the policy protects
    /// is closed there.
    pub fn lacks_service(&self, identity: &ClientIdentity) -> bool {
        self.chain_filters().iter().flat_map(ChainFilter::remotes).any(|remote| identity.closes_remote(remote))
    }

    /// Returns the filters that the policy requires in chains.
    pub(crate) fn chain_filters(&self) -> Vec<ChainFilter> {
        let no_policy = ObjectKey::new("", "", "", "");
        merge(std::iter::once((&no_policy, &**self.settings))).guards().filters()
    }

    /// Returns the contents of the filters that the policy requires in chains.
    pub fn filters(&self) -> Vec<Content> {
        self.chain_filters().iter().map(chain_parts::filter_content).collect()
    }

    /// Returns the field below `spec` of the setting with this content.
    pub fn field_of(&self, content: &Content) -> Option<String> {
        let field_in = |settings: &PolicySettings| {
            let (field, _) = settings.contents().iter().find(|(_, known)| *known == content)?;
            let is_of_connection = matches!(settings.get(field), Some(Piece::Connection(_)));
            Some((*field, is_of_connection))
        };
        if let Some((field, is_of_connection)) = field_in(&self.settings) {
            return Some(if is_of_connection { format!("default.{field}") } else { field.to_owned() });
        }
        let of_port = |(port, settings): (&i64, &Arc<PolicySettings>)| Some((*port, field_in(settings)?.0));
        self.ports.iter().find_map(of_port).map(|(port, field)| format!("perPort of port {port}: {field}"))
    }
}

impl Outcome for PolicyPlan {
    fn of<'o>(outcomes: &'o Outcomes, key: &ObjectKey) -> Option<&'o Arc<Self>> {
        outcomes.policies.get(key)
    }

    fn set(outcomes: &mut Outcomes, key: &ObjectKey, outcome: Option<Arc<Self>>) {
        match outcome {
            Some(outcome) => drop(outcomes.policies.insert(key.clone(), outcome)),
            None => drop(outcomes.policies.remove(key)),
        }
    }
}

/// Reason why a policy cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unenforceable {
    /// Class of the faults: content or reference.
    pub class: Class,
    /// All faults in one sentence.
    pub message: Arc<str>,
    /// Kind of the object to edit: the policy, an extension that it uses, or the object that references it.
    pub kind: Arc<str>,
}
