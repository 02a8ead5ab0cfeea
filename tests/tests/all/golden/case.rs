//! A golden case: its settings, its steps of events, and the parts of the result to show.
//!
//! The file begins with a comment that describes the case, in sentences. Comments of these forms are directives:
//!
//! - `# include: include/class.yaml`: files of `golden/` that are applied first
//! - `# settings: replacement=off, mode=cluster`: settings, see [`setting`]
//! - `# show: LDS, edges`: the parts of the result that are shown in full, see [`GoldenCase::show`]
//! - `# ask: GET shop.example.com/cart x-a=1`: a request that is traced through the result, see [`TracedRequest`]
//! - `# acknowledge`: Envoy acknowledges everything
//! - `# step: a sentence`: the beginning of a step; its events happen after those of the step before
//! - `# delete: Service shop/cart`: an object that is deleted in the step

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_api::apis::{Decoded, KINDS, decode};
use holdfast_api::settings::{RateLimits, Replacement, Settings};
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use holdfast_test_support as testing;

use super::trace::TracedRequest;

/// The content of a file.
pub(super) struct GoldenCase {
    /// Settings of the engine.
    pub(super) settings: Settings,
    /// The parts that are shown in full: short names of xDS types, `edges`, `statuses`, `planes`, `bootstrap`.
    ///
    /// `brief` shows listeners with routes, and no resources. `trusted` and `by-address` change the xDS settings of
    /// data planes.
    pub(super) show: BTreeSet<String>,
    /// Whether Envoy acknowledges everything that it receives.
    pub(super) acknowledge: bool,
    /// Requests to trace.
    pub(super) requests: Vec<TracedRequest>,
    /// The steps in order; never empty.
    pub(super) steps: Vec<CaseStep>,
}

/// Events that the engine handles at once.
#[derive(Default)]
pub(super) struct CaseStep {
    /// The sentence of the `# step` directive; empty if the case has none.
    pub(super) title: String,
    /// The events.
    pub(super) events: Vec<Event>,
    /// The reasons why documents were skipped: the object is of a foreign kind or has no name.
    pub(super) skipped: Vec<String>,
}

impl GoldenCase {
    /// Parses a case; `folder` contains the files to include.
    pub(super) fn read(text: &str, folder: &Path) -> Result<Self, String> {
        let mut case = Self {
            settings: Settings::standalone(),
            show: BTreeSet::new(),
            acknowledge: false,
            requests: Vec::new(),
            steps: Vec::new(),
        };
        if !text.starts_with("# ") {
            return Err("a case begins with a comment that says what it shows".into());
        }
        let mut step = CaseStep::default();
        let mut body = String::new();
        for line in text.lines() {
            let Some((word, rest)) = directive(line) else {
                body.push_str(line);
                body.push('\n');
                continue;
            };
            match word {
                "include" => {
                    for file in list(rest) {
                        let text = fs::read_to_string(folder.join(file)).map_err(|error| format!("{file}: {error}"))?;
                        step.take(&text);
                    }
                }
                "settings" => list(rest).try_for_each(|entry| setting(&mut case.settings, entry))?,
                "show" => case.show.extend(list(rest).map(str::to_owned)),
                "ask" => case.requests.push(TracedRequest::read(rest)?),
                "acknowledge" => case.acknowledge = true,
                "delete" => step.events.push(Event::Deleted(key(rest)?)),
                "step" => {
                    step.take(&std::mem::take(&mut body));
                    // Everything before the first `# step` belongs to the first step.
                    if step.title.is_empty() {
                        step.title = rest.to_owned();
                    } else {
                        let next = CaseStep { title: rest.to_owned(), ..CaseStep::default() };
                        case.steps.push(std::mem::replace(&mut step, next));
                    }
                }
                _ => return Err(format!("{word:?} is no word that sets anything")),
            }
        }
        step.take(&body);
        case.steps.push(step);
        Ok(case)
    }
}

impl CaseStep {
    fn take(&mut self, text: &str) {
        let text = text.replace("{GATEWAY_CLASS_NAME}", "holdfast");
        for document in testing::documents(&text) {
            match decode(document.clone(), None) {
                Decoded::Foreign(why) | Decoded::Nameless(why) => self.skipped.push(why),
                Decoded::Unserved(fault) => self.skipped.push(fault.to_string()),
                Decoded::Object(..) | Decoded::Unusable(..) => self.events.extend(testing::event(document)),
            }
        }
    }
}

/// Parses `# word: rest`, with the word in lower case, or `# acknowledge`.
fn directive(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("# ")?;
    if line == "acknowledge" {
        return Some((line, ""));
    }
    let (word, rest) = line.split_once(": ")?;
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
    is_word.then_some((word, rest.trim()))
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn setting(settings: &mut Settings, entry: &str) -> Result<(), String> {
    let (name, value) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not name=value"))?;
    let number = || value.parse::<u32>().map_err(|error| format!("{entry}: {error}"));
    match (name, value) {
        ("mode", "cluster") => {
            *settings = Settings { replacement: settings.replacement.clone(), ..Settings::default() }
        }
        ("provision", "on") => settings.provision = true,
        ("replacement", "off") => settings.replacement = None,
        ("code", _) => replacement(settings).code = number()?.try_into().map_err(|_| entry.to_owned())?,
        ("body", _) => replacement(settings).body = value.into(),
        ("shift", _) => settings.low_port_shift = number()?.try_into().map_err(|_| entry.to_owned())?,
        ("loopback", "refused") => settings.allow_loopback_backends = false,
        ("fallback", _) => {
            let (namespace, name) = value.split_once('/').ok_or_else(|| entry.to_owned())?;
            settings.proxies.fallback_certificate = Some(ObjectKey::new("", "Secret", namespace, name));
        }
        ("client", _) => {
            let (namespace, name) = value.split_once('/').ok_or_else(|| entry.to_owned())?;
            settings.proxies.client_certificate = Some(ObjectKey::new("", "Secret", namespace, name));
        }
        ("gateway", _) => settings.proxies.gateway = Some(key(&format!("Gateway {value}"))?),
        ("limits", _) => settings.proxies.rate_limit = Some(limits(value)?),
        ("roots", _) => settings.proxies.root_namespaces = vec![value.into()],
        ("re2", _) => settings.re2_program_size_max = number()?,
        _ => return Err(format!("setting {entry:?} is not known")),
    }
    Ok(())
}

/// Returns the settings of a rate limit service with the given name.
fn limits(name: &str) -> Result<RateLimits, String> {
    Ok(RateLimits {
        service: key(&format!("ExtensionService {name}"))?,
        domain: "golden".into(),
        timeout: Duration::from_millis(100),
        fail_open: false,
        quota_headers: true,
        resource_exhausted: false,
    })
}

fn replacement(settings: &mut Settings) -> &mut Replacement {
    settings.replacement.get_or_insert_default()
}

/// Parses `Kind namespace/name` or `Kind name`.
fn key(text: &str) -> Result<ObjectKey, String> {
    let (kind, name) = text.split_once(' ').ok_or_else(|| format!("{text:?} is not Kind namespace/name"))?;
    let known = KINDS.iter().find(|known| known.kind == kind).ok_or_else(|| format!("{kind} is no kind"))?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Ok(ObjectKey::new(known.group, known.kind, namespace, name))
}
