//! The language of stories: steps, settings and expectations.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::settings::{Fallback, Settings};
use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};

/// A story.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoryFile {
    /// What the story shows, in one sentence.
    pub why: String,
    /// The settings of the operator.
    #[serde(default)]
    pub settings: Set,
    /// The Envoys, by node.
    #[serde(default)]
    pub envoys: BTreeMap<String, StoryNode>,
    /// The steps.
    pub steps: Vec<StoryStep>,
}

/// An Envoy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StoryNode {
    /// Build of the Envoy.
    #[serde(default = "build")]
    pub build: String,
    /// Its Gateway.
    #[serde(default = "gateway")]
    pub gateway: String,
    /// Whether it connects later, by a separate step.
    #[serde(default)]
    pub later: bool,
}

fn build() -> String {
    "1.36.0".into()
}

fn gateway() -> String {
    "infra/public".into()
}

/// The settings of the operator; by default all are off, except replacement, backfill and backfill of dependants.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Set {
    /// Gate `FallbackConfiguration`.
    pub fallback_configuration: bool,
    /// `--use-last-valid-config-for-fallback`.
    pub use_last_valid: bool,
    /// `--backfill-dependants`.
    pub backfill_dependants: bool,
    /// Gate `InvalidRouteReplacement`.
    pub invalid_route_replacement: bool,
    /// Gate `BackfillUnresolvedReferences`.
    pub backfill_unresolved_references: bool,
    /// `--max-backfill-age`, in seconds.
    pub max_backfill_age: Option<i64>,
    /// `--store-key-file`: the reasons without one; the stage stores everything.
    pub store_key: bool,
    /// Build of the probe; none where it is absent.
    pub probe: Option<String>,
    /// Whether Envoys run on the host of Holdfast, where other processes can use their ports.
    pub standalone: bool,
    /// `--httpproxy-gateway`.
    pub httpproxy_gateway: Option<String>,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            fallback_configuration: true,
            use_last_valid: true,
            backfill_dependants: true,
            invalid_route_replacement: true,
            backfill_unresolved_references: false,
            max_backfill_age: None,
            store_key: true,
            probe: None,
            standalone: false,
            httpproxy_gateway: None,
        }
    }
}

impl Set {
    /// The settings in the form of the engine.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings {
            fallback: Fallback {
                isolate: self.fallback_configuration,
                use_last_valid: self.use_last_valid,
                backfill_dependants: self.backfill_dependants,
                backfill_unresolved: self.backfill_unresolved_references,
                max_backfill_age: self.max_backfill_age,
                stores_credentials: self.store_key,
                ..Fallback::default()
            },
            ..Settings::default()
        };
        if !self.invalid_route_replacement {
            settings.replacement = None;
        }
        settings.listen_address = self.standalone.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let gateway = self.httpproxy_gateway.as_ref().and_then(|gateway| gateway.split_once('/'));
        settings.proxies.gateway =
            gateway.map(|(namespace, name)| ObjectKey::new(GROUP, kinds::GATEWAY, namespace, name));
        settings
    }
}

/// One step.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum StoryStep {
    /// Creates or changes objects, all at once.
    Apply(String),
    /// Creates or changes objects, all at once; after the given rounds of messages the remaining answers are in flight.
    #[serde(rename = "inHaste")]
    ApplyEarly(EarlyApply),
    /// Creates many objects: the text once for each number, where `$N` is the number.
    ApplyMany(Many),
    /// Deletes objects, all at once.
    Delete(Vec<String>),
    /// Deletes objects and creates them again with other UIDs.
    Recreate(String),
    /// Makes the content of these objects unreadable.
    Unusable(Vec<String>),
    /// Makes Envoys refuse something from now on.
    Refuse(Box<Refuse>),
    /// Makes Envoys accept it again.
    Accept(String),
    /// Connects Envoys, with the resources that they had.
    Connect(Vec<String>),
    /// Ends the streams of Envoys; they keep their resources.
    Disconnect(Vec<String>),
    /// Makes Envoys lose their resources.
    Fresh(Vec<String>),
    /// Makes Envoys accept nothing and answer nothing from now on.
    Silence(Vec<String>),
    /// Makes Envoys answer again.
    Speak(Vec<String>),
    /// The ports of all addresses that other processes use from now on, each with the process.
    Taken(BTreeMap<u16, String>),
    /// Removes the probe (none) or adds it (its build).
    Probe(Option<String>),
    /// Advances the clock by this number of seconds.
    Clock(u64),
    /// Stops Holdfast.
    Stop,
    /// Starts Holdfast, which reads the store; it does not know any object yet.
    Start,
    /// Starts Holdfast like `start`; no Envoy connects.
    StartWithoutEnvoys,
    /// Reports all objects to Holdfast.
    List,
    /// Stops and starts Holdfast, and reports all objects.
    Restart,
    /// Changes the settings; they apply from the next start.
    Set(Box<Set>),
    /// Resets the counts of NACKs and pushes.
    Count,
    /// Checks expectations.
    Expect(Box<Expect>),
}

/// Objects that are applied without waiting for all answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyApply {
    /// Rounds of messages.
    pub rounds: u64,
    /// The objects.
    pub apply: String,
}

/// A text that is applied many times.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Many {
    /// Number of copies.
    pub count: usize,
    /// The text.
    pub text: String,
    /// Numbers for which `$MARK` is `BAD`; for others it is `good`.
    #[serde(default)]
    pub bad: Vec<usize>,
}

/// How Envoys react to a refused resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// They send a NACK.
    #[default]
    Nack,
    /// They crash.
    Die,
    /// They stop answering.
    Hang,
    /// Envoys send a NACK; the probe is unavailable for it.
    Absent,
    /// They never answer to it, but continue to answer other responses; the probe is unavailable for it.
    Ignore,
}

/// An oracle: a description of refused resources. `builds` and `nodes` restrict it; a resource is refused if any of the
/// other conditions holds (`route` and `matching` are one condition).
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Refuse {
    /// The name, by which it is removed.
    pub name: String,
    /// Builds that refuse; all builds where empty.
    pub builds: Vec<String>,
    /// Nodes that refuse; where given, the probe does not.
    pub nodes: Vec<String>,
    /// A route configuration with a route that contains each of these texts.
    pub route: Vec<String>,
    /// A route configuration with a route that contains each of these texts in its match.
    pub matching: Vec<String>,
    /// A route configuration that contains each of these texts in some route.
    pub together: Vec<String>,
    /// A route configuration that contains none of these texts in any route.
    pub without: Vec<String>,
    /// A route configuration that contains each of these texts anywhere: in routes, in virtual hosts, or at its top
    /// level.
    pub anywhere: Vec<String>,
    /// A certificate of this name.
    pub certificate: Option<String>,
    /// A listener with this text.
    pub listener: Option<String>,
    /// A cluster with each of these texts.
    pub cluster: Vec<String>,
    /// The message of the refusal.
    pub message: Option<String>,
    /// The reaction.
    pub how: How,
}

/// Expectations; fields that are not given are not checked.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expect {
    /// The Gateway; the first one where unset.
    pub gateway: Option<String>,
    /// The build; the first one where unset.
    pub build: Option<String>,
    /// By request the response: a backend, a status, `redirect` or `nothing`.
    pub routes: BTreeMap<String, String>,
    /// Every deviation by object: `Kind/namespace/name`, with `#` and a section where there is one.
    pub steps: Option<BTreeMap<String, String>>,
    /// Every broken object, with the detector of its fault.
    pub broken: Option<BTreeMap<String, String>>,
    /// The generations that are last valid; `none` for no version.
    pub last_valid: BTreeMap<String, String>,
    /// Refusals since the counts were reset, by node, or `probe`.
    pub nacks: BTreeMap<String, usize>,
    /// The maximum number of refusals.
    pub nacks_at_most: BTreeMap<String, usize>,
    /// Responses since the counts were reset, by node, without endpoints.
    pub pushes: BTreeMap<String, usize>,
    /// The minimum number of responses.
    pub pushes_at_least: BTreeMap<String, usize>,
    /// Verdicts in quarantine.
    pub quarantine: Option<usize>,
    /// Resources that are held.
    pub held: Option<Vec<String>>,
    /// Whether the whole configuration is held.
    pub held_as_a_whole: Option<bool>,
    /// Outlier Envoys: only they refuse a content.
    pub alone: Option<Vec<String>>,
    /// Addresses of a backend, in the configuration of every Envoy.
    pub endpoints: BTreeMap<String, Vec<String>>,
    /// Name of the certificate in the configuration of every Envoy.
    pub certificates: BTreeMap<String, String>,
    /// Whether all Envoys have the configuration of a new engine with the same objects.
    pub as_new: Option<bool>,
    /// By request a text in the per-filter configuration of its route, its virtual host or the route configuration.
    pub filtered: BTreeMap<String, String>,
    /// Texts that must not be in any Envoy's configuration.
    pub nowhere: Vec<String>,
    /// By object a text in the message about its fault.
    pub messages: BTreeMap<String, String>,
    /// By object a text in one of its conditions, in the form `Accepted=False Invalid: message`.
    pub conditions: BTreeMap<String, String>,
    /// By broken object a text in the reason why its last valid version is not served.
    pub not_backfilled: BTreeMap<String, String>,
    /// Every finding of health: by its objects, the severity and the other objects that it affects.
    pub health: Option<BTreeMap<String, String>>,
    /// By object its fields at fault, each after the generation that has it: `2 spec.rules[0], 2 spec.rules[3]`.
    pub fields: BTreeMap<String, String>,
}
