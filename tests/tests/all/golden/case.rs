//! A case: what its file says, as steps of events and what is to be shown.
//!
//! ```text
//! # What the case shows, in sentences.
//! # include: include/class.yaml              files of `golden/` that come first
//! # settings: replacement=off, mode=cluster  see `setting`
//! # show: LDS, edges                         what is shown in full: types, edges, statuses, planes; or `brief`
//! # ask: GET shop.example.com/cart x-a=1     a request whose way is traced through the answer, see `ask`
//! # acknowledge                              Envoy acknowledges everything
//! # step: a sentence                         what follows happens later
//! # delete: Service shop/cart                in a step
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_engine::apis::{Decoded, KINDS, decode};
use holdfast_engine::engine::Event;
use holdfast_engine::settings::{RateLimits, Replacement, Settings};
use holdfast_engine::testing;
use holdfast_graph::ObjectKey;

use super::ask::Ask;

/// What a file says.
pub(super) struct Case {
    /// Settings of the engine.
    pub(super) settings: Settings,
    /// What is shown in full: short names of xDS types, `edges`, `statuses`; `brief` shows no resources.
    pub(super) show: BTreeSet<String>,
    /// Does Envoy acknowledge everything it is sent?
    pub(super) acknowledge: bool,
    /// Requests to trace.
    pub(super) asks: Vec<Ask>,
    /// What happens, one after the other; never empty.
    pub(super) steps: Vec<Step>,
}

/// What happens at once.
#[derive(Default)]
pub(super) struct Step {
    /// A sentence; empty for the only step.
    pub(super) title: String,
    /// What happens.
    pub(super) events: Vec<Event>,
    /// Documents that are no objects of ours, with the reason.
    pub(super) skipped: Vec<String>,
}

impl Case {
    /// Reads a case; files to include stand below `folder`.
    pub(super) fn read(text: &str, folder: &Path) -> Result<Self, String> {
        let mut case = Self {
            settings: Settings::standalone(),
            show: BTreeSet::new(),
            acknowledge: false,
            asks: Vec::new(),
            steps: Vec::new(),
        };
        if !text.starts_with("# ") {
            return Err("a case begins with a comment that says what it shows".into());
        }
        let mut step = Step::default();
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
                "ask" => case.asks.push(Ask::read(rest)?),
                "acknowledge" => case.acknowledge = true,
                "delete" => step.events.push(Event::Deleted(key(rest)?)),
                "step" => {
                    step.take(&std::mem::take(&mut body));
                    // What comes before the first step belongs to it.
                    if step.title.is_empty() {
                        step.title = rest.to_owned();
                    } else {
                        let next = Step { title: rest.to_owned(), ..Step::default() };
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

impl Step {
    fn take(&mut self, text: &str) {
        let text = text.replace("{GATEWAY_CLASS_NAME}", "holdfast");
        for document in testing::documents(&text) {
            match decode(document.clone(), None) {
                Decoded::Foreign(why) | Decoded::Nameless(why) => self.skipped.push(why),
                Decoded::Object(..) | Decoded::Unusable(..) => self.events.extend(testing::event(document)),
            }
        }
    }
}

/// `# word: rest`, where word is one of ours.
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
        ("gateway", _) => settings.proxies.gateway = Some(key(&format!("Gateway {value}"))?),
        ("limits", _) => settings.proxies.rate_limit = Some(limits(value)?),
        ("roots", _) => settings.proxies.root_namespaces = vec![value.into()],
        ("re2", _) => settings.re2_program_size_max = number()?,
        _ => return Err(format!("setting {entry:?} is not known")),
    }
    Ok(())
}

/// A rate limit service by its name.
fn limits(name: &str) -> Result<RateLimits, String> {
    Ok(RateLimits {
        service: key(&format!("ExtensionService {name}"))?,
        domain: "golden".into(),
        timeout: Duration::from_millis(100),
        fail_open: false,
        tell_clients: true,
        resource_exhausted: false,
    })
}

fn replacement(settings: &mut Settings) -> &mut Replacement {
    settings.replacement.get_or_insert_default()
}

/// `Kind namespace/name` or `Kind name`.
fn key(text: &str) -> Result<ObjectKey, String> {
    let (kind, name) = text.split_once(' ').ok_or_else(|| format!("{text:?} is not Kind namespace/name"))?;
    let known = KINDS.iter().find(|known| known.kind == kind).ok_or_else(|| format!("{kind} is no kind"))?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Ok(ObjectKey::new(known.group, known.kind, namespace, name))
}
