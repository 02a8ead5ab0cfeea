//! Selected part of the health: a namespace, a Gateway, or both.

use std::fmt;

use holdfast_engine::health::Health;

use crate::printable;

/// Maximum number of known names that are listed with an unknown one.
const KNOWN_NAMES_MAX: usize = 10;

/// The selected part; everything if neither is set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SelectedPart<'a> {
    pub(super) namespace: Option<&'a str>,
    /// `namespace/name`.
    pub(super) gateway: Option<&'a str>,
}

impl SelectedPart<'_> {
    /// The message about an unknown name; `None` if all names are known.
    pub(super) fn unknown(&self, health: &Health) -> Option<String> {
        if let Some(namespace) = self.namespace {
            let known = health.known_namespaces();
            if !known.contains(namespace) {
                let known = listed(known.into_iter().map(str::to_owned).collect());
                let named = printable::plain(namespace);
                return Some(format!(
                    "--namespace {named}: Holdfast has read no object of this namespace; namespaces with objects: {known}"
                ));
            }
        }
        let gateway = self.gateway?;
        let known = health.known_gateways();
        if known.contains(gateway) {
            return None;
        }
        let (named, known) = (printable::plain(gateway), listed(known.into_iter().collect()));
        Some(format!("--gateway {named}: Holdfast serves no such Gateway; Gateways: {known}"))
    }

    /// The health of this part.
    pub(super) fn of(&self, mut health: Health) -> Health {
        if let Some(namespace) = self.namespace {
            health = health.of_namespace(namespace);
        }
        if let Some(gateway) = self.gateway {
            health = health.of_gateway(gateway);
        }
        health
    }
}

/// ` of namespace shop at Gateway infra/public`; empty for everything.
impl fmt::Display for SelectedPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.namespace {
            write!(f, " of namespace {}", printable::plain(namespace))?;
        }
        match self.gateway {
            Some(gateway) => write!(f, " at Gateway {}", printable::plain(gateway)),
            None => Ok(()),
        }
    }
}

fn listed(names: Vec<String>) -> String {
    let shown: Vec<_> = names.iter().take(KNOWN_NAMES_MAX).map(|name| printable::plain(name).into_owned()).collect();
    match (shown.is_empty(), names.len().saturating_sub(KNOWN_NAMES_MAX)) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
