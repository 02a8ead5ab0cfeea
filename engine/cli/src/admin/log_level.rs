//! `/debug/log-level`: the level of the log, and the only page that changes anything.
//!
//! A change is accepted only from the host itself, which includes `kubectl port-forward`. Its method is PUT, which a
//! browser does not send to another origin without that origin's consent.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Query, State as Extract};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use super::State;
use crate::arguments;
use crate::log::{LOG_DIRECTIVES_BYTES_MAX, LOG_LEVEL_TIME_MAX};
use crate::printable::plain;

/// The client address of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// The level that applies.
pub(super) async fn show(Extract(state): Extract<State>) -> Response {
    Json(state.log_level.view()).into_response()
}

/// Applies a level (`level`) for some seconds (`seconds`).
pub(super) async fn change(
    Extract(state): Extract<State>,
    peer: Option<Extension<PeerAddress>>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    if let Some(refusal) = refusal(peer) {
        return refusal;
    }
    match read(&query).and_then(|(level, time)| state.log_level.set(&level, time)) {
        Ok(()) => show(Extract(state)).await,
        Err(why) => (StatusCode::BAD_REQUEST, format!("{}\n", plain(&why))).into_response(),
    }
}

/// Applies the level of the start.
pub(super) async fn reset(Extract(state): Extract<State>, peer: Option<Extension<PeerAddress>>) -> Response {
    if let Some(refusal) = refusal(peer) {
        return refusal;
    }
    state.log_level.reset();
    show(Extract(state)).await
}

/// The response to a client on another host. A connection without a known address counts as one.
fn refusal(peer: Option<Extension<PeerAddress>>) -> Option<Response> {
    if peer.is_some_and(|Extension(PeerAddress(peer))| peer.to_canonical().is_loopback()) {
        return None;
    }
    let why = "the level of the log can be changed only from this host, for example by kubectl port-forward\n";
    Some((StatusCode::FORBIDDEN, why).into_response())
}

fn read(query: &[(String, String)]) -> Result<(String, Duration), String> {
    let (mut level, mut time) = (None, None);
    for (name, value) in query {
        match &**name {
            "level" if value.len() > LOG_DIRECTIVES_BYTES_MAX => {
                return Err(format!("level: at most {LOG_DIRECTIVES_BYTES_MAX} bytes"));
            }
            "level" => level = Some(arguments::log_level(value).map_err(|why| format!("level: {why}"))?),
            "seconds" => time = Some(seconds(value)?),
            _ => return Err(format!("unknown parameter {name}; the parameters are level and seconds")),
        }
    }
    Ok((level.ok_or("level is missing")?, time.ok_or("seconds is missing")?))
}

fn seconds(value: &str) -> Result<Duration, String> {
    let time = value.parse().map(Duration::from_secs);
    let most = LOG_LEVEL_TIME_MAX.as_secs();
    time.ok().filter(|time| !time.is_zero() && *time <= LOG_LEVEL_TIME_MAX).ok_or(format!("seconds: from 1 to {most}"))
}
