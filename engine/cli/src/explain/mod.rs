//! What happens to one request and why, for the command `holdfast explain` and the page `/debug/explain`.
//!
//! The evaluation is in `holdfast_envoy::explain`. This room adds the Gateway that receives the request, the reason of a
//! replacement, and, for a running Holdfast, what is served instead of the desired versions and which Envoys have it. It
//! must not change anything, and knows no file and no socket.

mod envoys;
mod policies;
mod report;
mod running;
mod text;

pub(crate) use envoys::GatewayEnvoys;
pub(crate) use report::{ExplainFacts, ExplainReport, ExplainedManifests, RequestOutcome, rule_section};
pub(crate) use running::RunningFacts;
pub(crate) use text::{format, short};

/// Reads the header of a request, `NAME: VALUE`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
