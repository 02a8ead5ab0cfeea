//! What a story can say.

use std::collections::BTreeMap;

use holdfast_engine::settings::{Fallback, Settings};
use serde::Deserialize;

/// A story.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// What it shows, in a sentence.
    pub why: String,
    /// What operators have set.
    #[serde(default)]
    pub settings: Set,
    /// The Envoys, by node.
    #[serde(default)]
    pub envoys: BTreeMap<String, Node>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// An Envoy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Node {
    /// Its build.
    #[serde(default = "build")]
    pub build: String,
    /// Whose it is.
    #[serde(default = "gateway")]
    pub gateway: String,
    /// Does it come later, by a step of its own?
    #[serde(default)]
    pub later: bool,
}

fn build() -> String {
    "1.36.0".into()
}

fn gateway() -> String {
    "infra/public".into()
}

/// What operators have set; what is not said is off, but for replacement and backfill of dependants.
#[derive(Clone, Debug, Deserialize)]
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
    /// Build of the probe; none where it is absent.
    pub probe: Option<String>,
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
            probe: None,
        }
    }
}

impl Set {
    /// As the deciding code is told.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings {
            fallback: Fallback {
                isolate: self.fallback_configuration,
                use_last_valid: self.use_last_valid,
                backfill_dependants: self.backfill_dependants,
                backfill_unresolved: self.backfill_unresolved_references,
                max_backfill_age: self.max_backfill_age,
                ..Fallback::default()
            },
            ..Settings::default()
        };
        if !self.invalid_route_replacement {
            settings.replacement = None;
        }
        settings
    }
}

/// Something that happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Step {
    /// Objects are created or changed, all at once.
    Apply(String),
    /// Objects are created or changed, all at once, and after some rounds of messages the rest of the answers is on its way.
    InHaste(Haste),
    /// Many objects: the text once for each number, `$N` being the number.
    ApplyMany(Many),
    /// Objects are deleted, all at once.
    Delete(Vec<String>),
    /// Objects are deleted and created again, as others of the same name.
    Recreate(String),
    /// The content of these objects cannot be read any more.
    Unusable(Vec<String>),
    /// From now on Envoys refuse something.
    Refuse(Box<Refuse>),
    /// Envoys take it again.
    Accept(String),
    /// Envoys connect, with what they had.
    Connect(Vec<String>),
    /// Their streams end; they keep what they have.
    Disconnect(Vec<String>),
    /// They lose what they had.
    Fresh(Vec<String>),
    /// They take nothing and answer nothing from now on.
    Silence(Vec<String>),
    /// They do again.
    Speak(Vec<String>),
    /// The probe goes (none) or comes (its build).
    Probe(Option<String>),
    /// So many seconds pass.
    Clock(u64),
    /// Holdfast ends.
    Stop,
    /// Holdfast starts, and reads what is stored; it knows no object yet.
    Start,
    /// All objects become known.
    List,
    /// It ends, starts and learns of all objects.
    Restart,
    /// Operators set something else; it holds from the next start.
    Set(Box<Set>),
    /// Nacks and pushes are counted from here.
    Count,
    /// What must be so now.
    Expect(Box<Expect>),
}

/// Objects whose answers are not waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Haste {
    /// Rounds of messages.
    pub rounds: u64,
    /// The objects.
    pub apply: String,
}

/// A text that is applied many times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Many {
    /// How many times.
    pub count: usize,
    /// The text.
    pub text: String,
    /// Numbers for which `$MARK` is `BAD`; for others it is `good`.
    #[serde(default)]
    pub bad: Vec<usize>,
}

/// How Envoys take what they refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// With a NACK.
    #[default]
    Nack,
    /// They die on it.
    Die,
    /// They fall silent.
    Hang,
    /// Envoys with a NACK; the probe cannot be asked about it.
    Absent,
    /// They never answer to it, and go on answering to other things; the probe cannot be asked about it.
    Ignore,
}

/// An oracle: what is refused. Of what is named, all must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Refuse {
    /// By this it is lifted.
    pub name: String,
    /// By Envoys of these builds; all where none is named.
    pub builds: Vec<String>,
    /// By these nodes only, and never by the probe.
    pub nodes: Vec<String>,
    /// A route configuration in which a route has each of these texts somewhere.
    pub route: Vec<String>,
    /// The same, where the text stands in the match.
    pub matching: Vec<String>,
    /// A route configuration that has these texts in different routes.
    pub together: Vec<String>,
    /// A route configuration in which none of these texts stands.
    pub without: Vec<String>,
    /// A route configuration with each of these texts anywhere: in routes, in what holds for a host or for all of it.
    pub anywhere: Vec<String>,
    /// A certificate of this name.
    pub certificate: Option<String>,
    /// A listener with this text.
    pub listener: Option<String>,
    /// A cluster with each of these texts.
    pub cluster: Vec<String>,
    /// What is said.
    pub message: Option<String>,
    /// How it is refused.
    pub how: How,
}

/// What must be so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expect {
    /// Of this Gateway; the first where there is only one.
    pub gateway: Option<String>,
    /// Of this build; the first where unset.
    pub build: Option<String>,
    /// By request what answers it: a back end, a status, `redirect` or `nothing`.
    pub routes: BTreeMap<String, String>,
    /// Every deviation: `Kind/namespace/name` or with a section behind a `#`.
    pub steps: Option<BTreeMap<String, String>>,
    /// Everything that is broken, with who found it.
    pub broken: Option<BTreeMap<String, String>>,
    /// Generations that are last valid; `none` for no version.
    pub last_valid: BTreeMap<String, String>,
    /// Refusals since counting began, by node, or `probe`.
    pub nacks: BTreeMap<String, usize>,
    /// The most that there may be.
    pub nacks_at_most: BTreeMap<String, usize>,
    /// Configurations sent since counting began, by node: messages of whatever type but endpoints.
    pub pushes: BTreeMap<String, usize>,
    /// The least that there must be.
    pub pushes_at_least: BTreeMap<String, usize>,
    /// Verdicts in quarantine.
    pub quarantine: Option<usize>,
    /// Resources that are held.
    pub held: Option<Vec<String>>,
    /// Is everything held?
    pub held_as_a_whole: Option<bool>,
    /// Envoys that are alone with their refusal.
    pub alone: Option<Vec<String>>,
    /// Addresses of a back end, as every Envoy has them.
    pub endpoints: BTreeMap<String, Vec<String>>,
    /// The name of the certificate that every Envoy has.
    pub certificates: BTreeMap<String, String>,
    /// Do all Envoys have what an engine gives that reads the same objects anew?
    pub as_new: Option<bool>,
    /// By request a text in what its route, its host or all of the route configuration says to filters.
    pub filtered: BTreeMap<String, String>,
    /// Texts that must stand in no Envoy's configuration.
    pub nowhere: Vec<String>,
    /// Texts in the messages of what is broken, by object.
    pub messages: BTreeMap<String, String>,
}
