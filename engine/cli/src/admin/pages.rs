//! Routes from URL paths to pages.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::extract::{Query, Request, State as Extract};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdfast_engine::health::Summary;
use holdfast_fallback::view::FallbackReport;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entries::EntriesQuery;
use super::explain::ExplainQuery;
use super::process::ProcessPage;
use super::{State, debug, diff, envoys, explain, log_level};
use crate::diff::DiffFacts;
use crate::explain::{ExplainFacts, ExplainReport, RunningFacts};
use crate::manifests::positions;
use crate::printable::plain;
use crate::serve::core::Core;
use crate::serve::heartbeat::LastBeat;
use crate::{log_tail, page};

/// Maximum number of requests that are processed at a time; further requests wait.
const PAGE_REQUESTS_MAX: usize = 16;
/// Timeout of a page.
const PAGE_TIME_MAX: Duration = Duration::from_secs(30);

/// The pages below `/debug`.
pub fn debug_pages(state: State) -> Router {
    let index = "/debug/health\n/debug/config/fallback\n/debug/config/successful\n/debug/config/failed\n/debug/config/raw-error\n/debug/config/entries?part=routes\n\
                 /debug/graph\n/debug/graph?format=dot\n/debug/plan\n/debug/envoys\n/debug/statuses\n/debug/faults\n\
                 /debug/store\n/debug/policies\n/debug/explain?method=GET&url=URL\n/debug/log\n/debug/log-level\n/debug/process\n/debug/diff\n/debug/diff?object=KIND/NAMESPACE/NAME\n";
    let pages = Router::new()
        .route("/debug", get(move || async move { index }))
        .route("/debug/health", get(health))
        .route("/debug/config/fallback", get(fallback))
        .route("/debug/config/successful", get(config))
        .route("/debug/config/failed", get(failed))
        .route("/debug/config/entries", get(entries))
        .route("/debug/config/raw-error", get(raw_error))
        .route("/debug/plan", get(plan))
        .route("/debug/store", get(store))
        .route("/debug/policies", get(policies))
        .route("/debug/graph", get(graph))
        .route("/debug/faults", get(faults))
        .route("/debug/envoys", get(envoys_page))
        .route("/debug/explain", get(explain_page))
        .route("/debug/log", get(async || log_tail::text()))
        .route("/debug/log-level", get(log_level::show).put(log_level::change).delete(log_level::reset))
        .route("/debug/process", get(async || Json(ProcessPage::new())))
        .route("/debug/diff", get(differences))
        .route("/debug/statuses", get(statuses))
        .with_state(state.clone())
        .merge(page::pages(state))
        .layer(axum::middleware::from_fn(by_address_only));
    limited(pages)
}

/// Accepts only requests to an IP address or to `localhost`. A browser can be made to send requests to this host under
/// another name (DNS rebinding), and would pass the response to the page that caused them.
async fn by_address_only(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let name =
        host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |(n, _)| n);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    if address || name.eq_ignore_ascii_case("localhost") {
        next.run(request).await
    } else {
        (
            StatusCode::MISDIRECTED_REQUEST,
            "diagnostics accept only an IP address or localhost as the host name of a request\n",
        )
            .into_response()
    }
}

/// `/metrics`, `/healthz` and `/readyz`.
pub fn metrics_pages(state: State) -> Router {
    let pages = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(state);
    limited(pages)
}

fn limited(pages: Router) -> Router {
    pages.layer(tower::limit::GlobalConcurrencyLimitLayer::new(PAGE_REQUESTS_MAX)).layer(axum::middleware::from_fn(
        |request: Request, next: Next| async move {
            match tokio::time::timeout(PAGE_TIME_MAX, next.run(request)).await {
                Ok(response) => response,
                Err(_) => (StatusCode::GATEWAY_TIMEOUT, "this took too long\n").into_response(),
            }
        },
    ))
}

/// `/debug/config/fallback`: the report of the fallback, with a summary of health.
#[derive(Serialize)]
struct FallbackPage {
    #[serde(flatten)]
    report: FallbackReport,
    health: Summary,
}

#[derive(Debug, Deserialize)]
struct ConfigQuery {
    gateway: Option<String>,
    r#type: Option<String>,
}

async fn config(Extract(state): Extract<State>, Query(query): Query<ConfigQuery>) -> Response {
    let Some(config) = state.handle.query(debug::Config::of).await else { return ending() };
    // Decoding all resources takes time, so it does not run on the main loop.
    let page = move || config.page(query.gateway.as_deref(), query.r#type.as_deref());
    json(tokio::task::spawn_blocking(page).await.ok())
}

#[derive(Debug, Deserialize)]
struct GraphQuery {
    format: Option<String>,
}

async fn graph(Extract(state): Extract<State>, Query(query): Query<GraphQuery>) -> Response {
    match query.format.as_deref() {
        None | Some("json") => json(state.handle.query(|core| debug::graph(&core.engine)).await),
        Some("dot") => match state.handle.query(|core| debug::dot(&core.engine)).await {
            Some(dot) => ([(header::CONTENT_TYPE, "text/vnd.graphviz; charset=utf-8")], dot).into_response(),
            None => ending(),
        },
        Some(_) => (StatusCode::BAD_REQUEST, "format must be json or dot\n").into_response(),
    }
}

async fn health(Extract(state): Extract<State>) -> Response {
    let Some(mut health) = state.handle.query(Core::health).await else { return ending() };
    let located = tokio::task::spawn_blocking(move || {
        positions::locate(health.findings_mut());
        health
    });
    located.await.map_or_else(|_| ending(), |health| Json(health).into_response())
}

/// A part of the published configuration: `part`, `gateway`, `host` and `envoy`, as in `holdfast config`.
async fn entries(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let query = match EntriesQuery::read(query) {
        Ok(query) => query,
        Err(why) => return bad_request(&why),
    };
    let Some(published) = state.handle.query(|core| core.published.clone()).await else { return ending() };
    // Decoding the resources takes time, so it does not run on the main loop.
    match tokio::task::spawn_blocking(move || query.answer(&published, &state.fleets)).await {
        Ok(Ok(page)) => Json(page).into_response(),
        Ok(Err(why)) => bad_request(&why),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the configuration could not be read\n").into_response(),
    }
}

async fn fallback(Extract(state): Extract<State>) -> Response {
    let page = |core: &Core| {
        let reports = core.engine.reports();
        FallbackPage { health: core.health_of(&reports).summary(), report: reports.fallback }
    };
    match state.handle.query(page).await {
        Some(report) => Json(report).into_response(),
        None => ending(),
    }
}

async fn failed(Extract(state): Extract<State>) -> Response {
    let Some(failed) = state.handle.query(|core| core.engine.failed()).await else { return ending() };
    // Decoded outside of the main loop, as for the served configuration.
    json(tokio::task::spawn_blocking(move || debug::failed(failed)).await.ok())
}

async fn raw_error(Extract(state): Extract<State>) -> Response {
    json(state.handle.query(|core| core.engine.raw_errors()).await)
}

async fn plan(Extract(state): Extract<State>) -> Response {
    json(state.handle.query(|core| core.engine.plans()).await)
}

async fn policies(Extract(state): Extract<State>) -> Response {
    json(state.handle.query(|core| core.engine.merge_origins()).await)
}

async fn store(Extract(state): Extract<State>) -> Response {
    let remembered = state.handle.query(debug::Remembered::of).await;
    let persisted = state.store.as_ref().map(|store| store.persisted());
    json(remembered.map(|remembered| debug::store(&remembered, persisted.as_ref())))
}

async fn faults(Extract(state): Extract<State>) -> Response {
    json(state.handle.query(debug::faults).await)
}

async fn statuses(Extract(state): Extract<State>) -> Response {
    json(state.handle.query(debug::statuses).await)
}

/// What happens to a request: `method`, `url`, `header` (repeated) and `gateway`, as in `holdfast explain`.
async fn explain_page(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    match explanation(&state, query).await {
        Ok(report) => Json(explain::document(&report)).into_response(),
        Err((status, why)) => (status, format!("{}\n", plain(&why))).into_response(),
    }
}

/// Explains a request.
///
/// # Errors
/// Returns an error if the query is invalid, or nothing can be explained now.
pub(crate) async fn explanation(
    state: &State,
    query: Vec<(String, String)>,
) -> Result<ExplainReport, (StatusCode, String)> {
    let query = ExplainQuery::read(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    if !state.health.translation.load(Relaxed) {
        return Err((StatusCode::SERVICE_UNAVAILABLE, "the objects have not been translated yet".into()));
    }
    let health = state.health.reported();
    let facts = state.handle.query(|core| {
        let running = RunningFacts::new(core, health);
        ExplainFacts::of_running(&core.engine, core.published.clone(), running)
    });
    let facts = facts.await.ok_or((StatusCode::SERVICE_UNAVAILABLE, "ending".to_owned()))?;
    // Decoding the resources takes time, so it does not run on the main loop.
    match tokio::task::spawn_blocking(move || query.answer(&facts)).await {
        Ok(answer) => answer.map_err(|failure| (StatusCode::BAD_REQUEST, failure.to_string())),
        Err(_) => Err((StatusCode::INTERNAL_SERVER_ERROR, "the request could not be explained".into())),
    }
}

/// What is served instead of what was written: of one object (`object`), or of all.
async fn differences(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let wanted = match diff::read(query) {
        Ok(wanted) => wanted,
        Err(why) => return bad_request(&why),
    };
    if !state.health.translation.load(Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "the objects have not been translated yet\n").into_response();
    }
    let _turn = state.comparison.lock().await;
    let fleets = state.fleets.clone();
    let facts = state.handle.query(move |core| {
        let envoys = envoys::connected(&fleets, &core.engine.outliers());
        let reports = core.engine.reports();
        let health = Arc::new(core.health_of(&reports));
        DiffFacts::of(core, Arc::new(reports), health, wanted.as_ref(), &envoys)
    });
    let facts = match facts.await {
        Some(Ok(facts)) => facts,
        Some(Err(why)) => return bad_request(&why),
        None => return ending(),
    };
    // Translation takes time, so it does not run on the main loop.
    match tokio::task::spawn_blocking(move || diff::answer(&facts)).await {
        Ok(page) => Json(page).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the objects could not be compared\n").into_response(),
    }
}

/// The reason may quote the request, and is shown by terminals.
fn bad_request(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{}\n", plain(why))).into_response()
}

/// The connected Envoys, of one Gateway (`gateway`) or of all.
async fn envoys_page(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let wanted = match envoys::read(query) {
        Ok(wanted) => wanted,
        Err(why) => return bad_request(&why),
    };
    let known = |core: &Core| {
        let names: BTreeSet<Arc<str>> = core.engine.gateway_names().chain(core.published.keys().cloned()).collect();
        (core.engine.outliers(), names)
    };
    let Some((outliers, known)) = state.handle.query(known).await else { return ending() };
    if let Some(unknown) = wanted.as_deref().filter(|wanted| !known.contains(*wanted)) {
        let known = known.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        return bad_request(&format!("there is no Gateway {unknown}; Gateways: {known}"));
    }
    Json(envoys::page(&state, &outliers, wanted.as_deref())).into_response()
}

async fn metrics(Extract(state): Extract<State>) -> Response {
    let persisted = state.store.as_ref().map(|store| store.persisted());
    match state.metrics.text(&state.fleets, persisted.as_ref(), &state.health.heartbeat.last()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn healthz(Extract(state): Extract<State>) -> (StatusCode, String) {
    liveness(&state.health.heartbeat.last())
}

/// Liveness: a Holdfast with a stuck main loop answers pages and keeps the streams of Envoys, but no edit has an effect.
fn liveness(last: &LastBeat) -> (StatusCode, String) {
    match last.is_stuck() {
        true => (StatusCode::SERVICE_UNAVAILABLE, format!("stuck: {last}\n")),
        false => (StatusCode::OK, "ok\n".into()),
    }
}

/// How long `/readyz?verbose` waits for the current health. The checks listed before it must be answered in time even
/// while the main loop is busy.
const HEALTH_TIME_MAX: Duration = Duration::from_secs(1);

/// Health as a sentence: the current health, or the last reported one while the main loop is busy. `None` before the
/// first report, when nothing is known.
async fn health_sentence(state: &State) -> Option<String> {
    let reported = state.health.served()?;
    let now = tokio::time::timeout(HEALTH_TIME_MAX, state.handle.query(|core| core.health().summary())).await;
    match now {
        Ok(summary) => summary.map(|summary| summary.sentence()),
        Err(_) => Some(format!("Last report (no current answer in time): {}", reported.sentence())),
    }
}

async fn readyz(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let checks = state.health.checks();
    let ready = checks.iter().all(|(_, passed)| *passed);
    let mut text = String::new();
    if !ready || query.iter().any(|(name, _)| name == "verbose") {
        for (name, passed) in checks {
            text.push_str(&format!(
                "[{}]{name} {}\n",
                if passed { '+' } else { '-' },
                if passed { "ok" } else { "not yet" }
            ));
        }
    }
    if query.iter().any(|(name, _)| name == "verbose") {
        // For people: a Holdfast that serves a fallback is ready nevertheless.
        text.push_str(&health_sentence(&state).await.map(|sentence| format!("[i]{sentence}\n")).unwrap_or_default());
    }
    text.push_str(if ready { "ready\n" } else { "not ready\n" });
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}

fn json(page: Option<Value>) -> Response {
    page.map_or_else(ending, |page| Json(page).into_response())
}

fn ending() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::heartbeat::{Activity, LOOP_WAIT_MAX};

    #[test]
    fn a_stuck_main_loop_is_not_alive() {
        let stuck = LastBeat { activity: Activity::Waiting, age: LOOP_WAIT_MAX };
        let text = "stuck: the main loop last ran 30 s ago (waiting for events)\n";
        assert_eq!(liveness(&stuck), (StatusCode::SERVICE_UNAVAILABLE, text.into()));
        let busy = LastBeat { activity: Activity::Translation, ..stuck };
        assert_eq!(liveness(&busy), (StatusCode::OK, "ok\n".into()));
    }
}
