//! The comparison of an explained answer with what a client gets.

use anyhow::{Result, ensure};
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_scenario_tests::request::Reply;
use serde_json::Value;

/// Fails where Envoy's answer is none of the explained ones; there is none if the connection fails, or if a stream of
/// HTTP/2 is reset.
pub(super) fn agree(answer: &ExplainedAnswer, reply: Option<&Reply>, is_http2: bool) -> Result<()> {
    let Some(reply) = reply else {
        let agrees = match answer {
            ExplainedAnswer::NoConnection { .. } => true,
            ExplainedAnswer::Rejected { why, .. } => is_http2 && is_reset(why),
            _ => false,
        };
        ensure!(agrees, "explained {answer:?}, and there is no answer");
        return Ok(());
    };
    let agrees = match answer {
        ExplainedAnswer::Backends { backends } => {
            backends.iter().filter(|backend| backend.weight > 0).any(|backend| match backend.error {
                Some(error) => has(reply, error, backend.grpc_status, None),
                None => pod(reply) == backend.object.as_ref().map(|object| object.name.to_string()),
            })
        }
        ExplainedAnswer::Shares { shares } => {
            shares.iter().any(|share| agree(&share.answer, Some(reply), is_http2).is_ok())
        }
        ExplainedAnswer::Response { status, body, grpc_status } => has(reply, *status, *grpc_status, body.as_deref()),
        ExplainedAnswer::Redirect { status, location, grpc_status } => {
            has(reply, *status, *grpc_status, None) && *location == reply.header("location")
        }
        ExplainedAnswer::NotFound { grpc_status, .. } => has(reply, 404, *grpc_status, Some("")),
        ExplainedAnswer::Rejected { status, why, grpc_status } => {
            has(reply, *status, *grpc_status, None) && !(is_http2 && is_reset(why))
        }
        ExplainedAnswer::Unknown { why } if is_of_method(why) => is_http2 == (reply.status.as_u16() != 400),
        ExplainedAnswer::Stream { .. } | ExplainedAnswer::NoConnection { .. } | ExplainedAnswer::Unknown { .. } => {
            false
        }
    };
    ensure!(agrees, "explained {answer:?}, and Envoy answers {} {:?} {}", reply.status, reply.headers, reply.body);
    Ok(())
}

/// Returns whether a reply has a status and a body, or those of a gRPC call.
fn has(reply: &Reply, status: u16, grpc_status: Option<u8>, body: Option<&str>) -> bool {
    let (status, text) = match grpc_status {
        None => (status, reply.body.clone()),
        Some(code) if reply.header("grpc-status") == code.to_string() => (200, reply.header("grpc-message")),
        Some(_) => return false,
    };
    let encoded = |body: &str| match grpc_status {
        None => body.to_owned(),
        Some(_) => body.replace('%', "%25").replace('\n', "%0A"),
    };
    reply.status.as_u16() == status && body.is_none_or(|body| encoded(body) == text)
}

/// Returns the backend that answered a request or a gRPC call.
fn pod(reply: &Reply) -> Option<String> {
    let json = reply.body.get(reply.body.find('{')?..=reply.body.rfind('}')?)?;
    let answer: Value = serde_json::from_str(json).ok()?;
    Some(answer.get("pod")?.as_str()?.to_owned())
}

/// Returns whether a rejected request gets no answer over HTTP/2.
fn is_reset(why: &str) -> bool {
    why.ends_with("over HTTP/2, the stream is reset instead")
}

/// Returns whether a request is answered 400 over HTTP/1.1 only.
fn is_of_method(why: &str) -> bool {
    why.ends_with("and answered 400; over HTTP/2, the request is routed")
}
