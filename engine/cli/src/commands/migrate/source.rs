//! The gateways that users come from, with their tables.

use clap::ValueEnum;
use serde::Serialize;

use super::rules::{MigrationRule, SettingTable};
use super::rules::{common, contour, contour_settings, ingress, kgateway, kgateway_parameters};
use super::rules::{kong, kong_annotations, kong_plugins};

/// The gateway that manifests were written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MigrationSource {
    /// Contour: HTTPProxies are served as they are
    Contour,
    /// Kgateway: its policies are served as they are
    Kgateway,
    /// Kong Ingress Controller: objects of Gateway API are served, kinds of Kong are not
    Kong,
}

/// Groups of experimental kinds and of kinds that Holdfast reads only in part, for every source.
const GROUPS: [&str; 2] = ["gateway.networking.k8s.io", "gateway.networking.x-k8s.io"];

impl MigrationSource {
    /// The tables, in the order in which their rules apply: of one place of an object, the first rule applies.
    pub(super) fn rules(self) -> impl Iterator<Item = &'static MigrationRule> {
        let own: &[&'static [MigrationRule]] = match self {
            Self::Contour => &[contour::RULES, ingress::RULES],
            Self::Kgateway => &[kgateway::RULES],
            Self::Kong => &[kong_plugins::RULES, kong::RULES, kong_annotations::RULES],
        };
        own.iter().copied().flatten().chain(common::RULES)
    }

    /// The tables of settings.
    pub(super) fn settings(self) -> &'static [SettingTable] {
        match self {
            Self::Contour => &[contour_settings::CONFIGURATION, contour_settings::FILE],
            Self::Kgateway => &[kgateway_parameters::TABLE],
            Self::Kong => &[],
        }
    }

    /// Returns whether the unknown kinds of a group are reported: others, such as Deployments, belong to no gateway.
    pub(super) fn has_group(self, group: &str) -> bool {
        let own: &[&str] = match self {
            Self::Contour => &["projectcontour.io", "contour.heptio.com"],
            Self::Kgateway => &[
                "kgateway.dev",
                "agentgateway.dev",
                "solo.io",
                "istio.io",
                "inference.networking.k8s.io",
                "inference.networking.x-k8s.io",
            ],
            Self::Kong => &["konghq.com"],
        };
        GROUPS.contains(&group) || own.iter().any(|domain| is_below(group, domain))
    }

    /// The name of the gateway.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Contour => "Contour",
            Self::Kgateway => "kgateway",
            Self::Kong => "Kong",
        }
    }
}

/// Returns whether a domain is another one, or below it.
pub(super) fn is_below(domain: &str, other: &str) -> bool {
    domain.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
