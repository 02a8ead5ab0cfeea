//! What happens to one request and why, for the command `holdfast explain` and the page `/debug/explain`.
//!
//! The evaluation is in `holdfast_envoy::explain`. This room adds the Gateway that receives the request, the reason of a
//! replacement, and, for a running Holdfast, what is served instead of the desired versions and which Envoys have it. It
//! must not change anything, and knows no file and no socket.

mod policies;
mod report;
mod running;
mod text;

pub(crate) use report::{ExplainFacts, ExplainReport, RequestOutcome};
pub(crate) use running::RunningFacts;
pub(crate) use text::format;
