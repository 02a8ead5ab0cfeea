//! Feature gates and their settings, from the command line to data. A setting that needs a gate is an error while the
//! gate is off; the error names the gate, since otherwise the user would believe that the setting has an effect.

use std::time::Duration;

use clap::Args;
use holdfast_api::settings::{
    BACKFILL_UNRESOLVED_REFERENCES, FALLBACK_CONFIGURATION, Fallback, INVALID_ROUTE_REPLACEMENT,
    INVALID_ROUTE_RESPONSE_BODY, Replacement,
};

use crate::arguments::{self, GateSetting};
use crate::failure::Failure;
use crate::headings;

/// Feature gates and their settings.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = headings::FALLBACK)]
pub struct GateArgs {
    /// Feature gates, as in FallbackConfiguration=true,InvalidRouteReplacement=false. FallbackConfiguration (default
    /// false): broken objects are isolated; without it, a configuration that Envoy refuses returns the whole Gateway to
    /// its last valid configuration. InvalidRouteReplacement (default true): a rule that cannot be served is replaced
    /// by a direct response. BackfillUnresolvedReferences (default false): the last valid version of a route is also
    /// served if its new version refers to a missing backend
    #[arg(long, env = "CONTROLLER_FEATURE_GATES", value_name = "GATE=BOOL", value_delimiter = ',')]
    pub feature_gates: Vec<GateSetting>,
    /// With FallbackConfiguration: serve the last valid version of broken objects, before any other step [default:
    /// false]
    #[arg(long, env = "CONTROLLER_USE_LAST_VALID_CONFIG_FOR_FALLBACK", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub use_last_valid_config_for_fallback: Option<bool>,
    /// With last valid versions: return dependants to their last valid versions together with the object that they
    /// depend on; false: only the culprit [default: true]
    #[arg(long, env = "CONTROLLER_BACKFILL_DEPENDANTS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub backfill_dependants: Option<bool>,
    /// With last valid versions: maximum time that one is served instead of a broken version, as in 24h [default: no
    /// limit]
    #[arg(long, env = "CONTROLLER_MAX_BACKFILL_AGE", value_name = "DURATION", value_parser = arguments::age)]
    pub max_backfill_age: Option<Duration>,
    /// With InvalidRouteReplacement: status of the response of a replaced rule [default: 404]
    #[arg(long, env = "CONTROLLER_INVALID_ROUTE_RESPONSE_CODE", value_name = "CODE")]
    #[arg(value_parser = clap::value_parser!(u16).range(200..=599))]
    pub invalid_route_response_code: Option<u16>,
    /// With InvalidRouteReplacement: body of the response of a replaced rule (at most 4096 bytes)
    #[arg(long, env = "CONTROLLER_INVALID_ROUTE_RESPONSE_BODY", value_name = "TEXT")]
    #[arg(value_parser = arguments::response_body)]
    pub invalid_route_response_body: Option<String>,
    /// Status of the response of a host or a whole route configuration that must not be served [default: 500]
    #[arg(long, env = "CONTROLLER_INVALID_POLICY_RESPONSE_CODE", value_name = "CODE")]
    #[arg(value_parser = clap::value_parser!(u16).range(400..=599))]
    pub invalid_policy_response_code: Option<u16>,
}

impl GateArgs {
    /// The response that replaces an invalid rule; `None` if replacement is switched off.
    ///
    /// # Errors
    /// Returns an error if a setting belongs to a gate that is off.
    pub fn replacement(&self) -> Result<Option<Replacement>, Failure> {
        let gate = INVALID_ROUTE_REPLACEMENT;
        let on = arguments::gate(&self.feature_gates, gate);
        needs(on, gate, "--invalid-route-response-code", self.invalid_route_response_code.is_some())?;
        needs(on, gate, "--invalid-route-response-body", self.invalid_route_response_body.is_some())?;
        let body = self.invalid_route_response_body.as_deref().unwrap_or(INVALID_ROUTE_RESPONSE_BODY);
        let code = self.invalid_route_response_code.unwrap_or(Replacement::default().code);
        Ok(on.then(|| Replacement { code, body: body.into() }))
    }

    /// The settings of the fallback.
    ///
    /// # Errors
    /// Returns an error if a setting belongs to a gate that is off.
    pub fn fallback(&self) -> Result<Fallback, Failure> {
        let isolate = arguments::gate(&self.feature_gates, FALLBACK_CONFIGURATION);
        let use_last_valid = self.use_last_valid_config_for_fallback.unwrap_or(false);
        let flag = "--use-last-valid-config-for-fallback";
        needs(isolate, FALLBACK_CONFIGURATION, flag, use_last_valid)?;
        let unresolved = arguments::gate(&self.feature_gates, BACKFILL_UNRESOLVED_REFERENCES);
        for (setting, is_set) in [
            ("--backfill-dependants", self.backfill_dependants.is_some()),
            ("--max-backfill-age", self.max_backfill_age.is_some()),
            ("--feature-gates BackfillUnresolvedReferences=true", unresolved),
        ] {
            if is_set && !use_last_valid {
                return Err(Failure::usage(format!("{setting} has no effect without {flag}=true")));
            }
        }
        let seconds = |age: Duration| i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        Ok(Fallback {
            isolate,
            use_last_valid,
            backfill_dependants: self.backfill_dependants.unwrap_or(true),
            backfill_unresolved: unresolved,
            max_backfill_age: self.max_backfill_age.map(seconds),
            ..Fallback::default()
        })
    }
}

fn needs(on: bool, gate: &str, setting: &str, is_set: bool) -> Result<(), Failure> {
    if is_set && !on {
        return Err(Failure::usage(format!("{setting} has no effect without --feature-gates {gate}=true")));
    }
    Ok(())
}
