//! Flags with the settings of the translation, which all commands that translate share.
//!
//! This module reads flags and refuses contradictory ones; [`Settings`] are their data.

pub mod gates;
pub mod proxies;
pub mod rate_limits;

use clap::Args;
use holdfast_api::settings::{CLOSED_STATUS, Settings};

use self::gates::GateArgs;
use self::proxies::ProxyArgs;
use crate::failure::Failure;
use crate::headings;

/// Settings of the translation, common to all commands that translate.
#[derive(Clone, Debug, Args)]
pub struct TranslationArgs {
    /// Feature gates and their settings.
    #[command(flatten)]
    pub gates: GateArgs,
    /// Allow backends at loopback addresses [default: true with manifests, else false]
    #[arg(help_heading = headings::ADDRESSES)]
    #[arg(long, env = "CONTROLLER_ALLOW_LOOPBACK_BACKENDS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_loopback_backends: Option<bool>,
    /// Allow Envoy to check the health of backends that it resolves by name. No address filter applies to these checks.
    /// [default: as --allow-loopback-backends]
    #[arg(help_heading = headings::ADDRESSES)]
    #[arg(long, env = "CONTROLLER_ALLOW_HEALTH_CHECKS_BY_NAME", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_health_checks_by_name: Option<bool>,
    /// Settings of HTTPProxies.
    #[command(flatten)]
    pub proxies: ProxyArgs,
}

impl TranslationArgs {
    /// The settings of standalone mode with these arguments.
    ///
    /// # Errors
    /// Returns an error if a setting belongs to a gate that is off.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let allow_loopback_backends = self.allow_loopback_backends.unwrap_or(true);
        Ok(Settings {
            replacement: self.gates.replacement()?,
            closed_status: self.gates.invalid_policy_response_code.unwrap_or(CLOSED_STATUS),
            fallback: self.gates.fallback()?,
            allow_loopback_backends,
            allow_health_checks_by_name: self.allow_health_checks_by_name.unwrap_or(allow_loopback_backends),
            proxies: self.proxies.settings()?,
            ..Settings::standalone()
        })
    }
}
