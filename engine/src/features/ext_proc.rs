//! A service that sees requests and responses on their way, and may change or refuse them, over gRPC.
//!
//! What it answers never makes Envoy look for the route again: which filters a request meets was decided with its first
//! route, and those of another one would be passed over.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/ext_proc_filter>

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3 as envoy;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ext_proc_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::external_processor::RouteCacheAction;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::metadata_options::MetadataNamespaces;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use holdfast_graph::ObjectKey;

use super::Flaw;
use super::asking::Asking;
use super::remote::Remote;
use crate::encode::duration;

/// Entries of one list.
pub const ENTRIES_MAX: usize = 64;
/// Bytes of an entry of a list, and of a prefix of statistics.
pub const TEXT_BYTES_MAX: usize = 256;
/// The longest time that an answer may take; Envoy's own limit.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// A processing service, as a filter of a chain. Those of one place stand in the order of these fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessingService {
    /// Its place among other filters.
    pub place: Place,
    /// Heavier ones come first at a place.
    pub weight: Reverse<i32>,
    /// The filter's name.
    pub name: Arc<str>,
    /// The objects that say all this.
    pub owners: Vec<ObjectKey>,
    /// Whom it asks.
    pub remote: Remote,
    /// How, beside what stands here.
    pub asking: Asking,
    /// How long the whole exchange about a request may take; no limit where unset.
    pub timeout: Option<Duration>,
    /// Do requests pass where there is no answer?
    pub fail_open: bool,
    /// What it is shown, unless a route says something else.
    pub modes: Modes,
    /// What it may ask to be shown instead: nothing else where unset, whatever it likes where none is listed.
    pub others: Option<Vec<Modes>>,
    /// How long one answer may take; Envoy's own 200 ms where unset.
    pub message_timeout: Option<Duration>,
    /// The longest time that it may ask for; it may ask for none where unset.
    pub message_timeout_max: Option<Duration>,
    /// What the names of its statistics begin with.
    pub stat_prefix: Arc<str>,
    /// Namespaces of metadata that it is told: with types, and without.
    pub metadata: (Vec<Arc<str>>, Vec<Arc<str>>),
    /// Attributes of requests that it is told, as expressions.
    pub attributes: Vec<Arc<str>>,
}

/// Where it stands in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before everything else.
    First,
    /// Before anybody is asked who the client is.
    Unknown,
    /// When it is known who the client is.
    Known,
    /// When it is known that the client may come in.
    #[default]
    Allowed,
    /// When requests were counted.
    Counted,
    /// After everything else.
    Last,
}

/// What of requests and responses it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Modes {
    /// Of requests.
    pub request: Shown,
    /// Of responses.
    pub response: Shown,
}

/// What of one direction it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// The headers? Yes where unset.
    pub headers: Option<bool>,
    /// The body.
    pub body: ShownBody,
    /// The trailers? No where unset.
    pub trailers: Option<bool>,
}

/// How it is shown a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownBody {
    /// Not at all.
    #[default]
    None,
    /// Piece by piece.
    Streamed,
    /// As a whole.
    Buffered,
    /// As much of it as there is room for.
    BufferedPartial,
    /// Piece by piece, and it answers when it likes.
    FullDuplexStreamed,
}

/// What a route says: its requests are shown to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtProc {
    /// To whom.
    pub service: Arc<ProcessingService>,
    /// What is shown, in the place of what is usual.
    pub modes: Option<Modes>,
}

impl ProcessingService {
    /// Checks the service; everything that cannot be used is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = self.modes.check("processingMode");
        for (index, modes) in self.others.iter().flatten().enumerate().take(ENTRIES_MAX) {
            flaws.extend(modes.check(&format!("allowedProcessingModeOverrides[{index}]")));
        }
        if self.others.as_ref().is_some_and(|others| others.len() > ENTRIES_MAX) {
            flaws.push(too_many("allowedProcessingModeOverrides"));
        }
        for (field, list) in [
            ("metadataOptions.forwarding.typed", &self.metadata.0),
            ("metadataOptions.forwarding.untyped", &self.metadata.1),
            ("requestAttributes", &self.attributes),
        ] {
            if list.len() > ENTRIES_MAX {
                flaws.push(too_many(field));
            }
            let wrong = |text: &Arc<str>| text.is_empty() || text.len() > TEXT_BYTES_MAX;
            if let Some(index) = list.iter().take(ENTRIES_MAX).position(wrong) {
                let message = format!("must not be empty, and have at most {TEXT_BYTES_MAX} bytes");
                flaws.push(Flaw::new(format!("{field}[{index}]"), message));
            }
        }
        for (field, time) in [("messageTimeout", self.message_timeout), ("maxMessageTimeout", self.message_timeout_max)]
        {
            if time.is_some_and(|time| time > TIMEOUT_MAX) {
                flaws.push(Flaw::new(field, "must not be longer than 1h"));
            }
        }
        flaws
    }

    /// Envoy's form.
    pub(crate) fn encode(&self) -> envoy::ExternalProcessor {
        let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (typed, untyped) = &self.metadata;
        let told = !typed.is_empty() || !untyped.is_empty();
        envoy::ExternalProcessor {
            grpc_service: Some(self.asking.grpc(&self.remote, self.timeout)),
            failure_mode_allow: self.fail_open,
            processing_mode: Some(self.modes.encode()),
            request_attributes: texts(&self.attributes),
            message_timeout: self.message_timeout.map(duration),
            max_message_timeout: self.message_timeout_max.map(duration),
            stat_prefix: self.stat_prefix.to_string(),
            allow_mode_override: self.others.is_some(),
            allowed_override_modes: self.others.iter().flatten().map(Modes::encode).collect(),
            metadata_options: told.then(|| envoy::MetadataOptions {
                forwarding_namespaces: Some(MetadataNamespaces { typed: texts(typed), untyped: texts(untyped) }),
                ..Default::default()
            }),
            route_cache_action: RouteCacheAction::Retain.into(),
            ..Default::default()
        }
    }
}

fn too_many(field: &str) -> Flaw {
    Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries"))
}

/// Why the names of statistics cannot begin so; unset where they can.
pub fn stat_prefix_fault(prefix: &str) -> Option<String> {
    let fits = prefix.len() <= TEXT_BYTES_MAX && !prefix.contains(char::is_control);
    (!fits).then(|| format!("is text of one line of at most {TEXT_BYTES_MAX} bytes"))
}

impl Modes {
    /// Checks what Envoy does not take together.
    pub fn check(&self, field: &str) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (direction, shown) in [("request", &self.request), ("response", &self.response)] {
            if shown.body == ShownBody::FullDuplexStreamed && shown.trailers != Some(true) {
                let message = format!("must be SEND where {direction}BodyMode is FULL_DUPLEX_STREAMED");
                flaws.push(Flaw::new(format!("{field}.{direction}TrailerMode"), message));
            }
        }
        flaws
    }

    fn encode(&self) -> envoy::ProcessingMode {
        let sent = |sent: Option<bool>| match sent {
            None => HeaderSendMode::Default.into(),
            Some(true) => HeaderSendMode::Send.into(),
            Some(false) => HeaderSendMode::Skip.into(),
        };
        envoy::ProcessingMode {
            request_header_mode: sent(self.request.headers),
            response_header_mode: sent(self.response.headers),
            request_body_mode: self.request.body.encode(),
            response_body_mode: self.response.body.encode(),
            request_trailer_mode: sent(self.request.trailers),
            response_trailer_mode: sent(self.response.trailers),
        }
    }
}

impl ShownBody {
    fn encode(self) -> i32 {
        let mode = match self {
            ShownBody::None => BodySendMode::None,
            ShownBody::Streamed => BodySendMode::Streamed,
            ShownBody::Buffered => BodySendMode::Buffered,
            ShownBody::BufferedPartial => BodySendMode::BufferedPartial,
            ShownBody::FullDuplexStreamed => BodySendMode::FullDuplexStreamed,
        };
        mode.into()
    }
}

impl ExtProc {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> envoy::ExtProcPerRoute {
        let processing_mode = self.modes.as_ref().map(Modes::encode);
        let overrides = envoy::ExtProcOverrides { processing_mode, ..Default::default() };
        envoy::ExtProcPerRoute { r#override: Some(Override::Overrides(overrides)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_body_that_are_answered_at_any_time_need_trailers() {
        let shown = |trailers| Shown { body: ShownBody::FullDuplexStreamed, trailers, ..Shown::default() };
        for (trailers, flaws) in [(Some(true), 0), (Some(false), 1), (None, 1)] {
            let modes = Modes { response: shown(trailers), ..Modes::default() };
            assert_eq!(modes.check("processingMode").len(), flaws, "{trailers:?}");
        }
        assert_eq!(Modes { request: shown(None), response: shown(None) }.check("m")[1].field, "m.responseTrailerMode");
    }
}
