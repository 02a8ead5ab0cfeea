//! Requests to pages: queries to the main loop, and the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::{Path, Query, State as Extract};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_check::time::Moment;
use holdfast_engine::health::{Health, SettingsInForce};
use holdfast_graph::{Node, ObjectKey};
use maud::{Markup, html};

use super::explain::{ExplainForm, status};
use super::filter::OverviewFilter;
use super::frame::{HtmlPage, KnownNames};
use super::hosts::ReadEarlier;
use super::object::{ObjectFacts, roots};
use super::overview::{self, OverviewFacts};
use crate::admin::{State, connected, explanation};
use crate::diff::{DiffFacts, DiffTarget};
use crate::finding::plain;
use crate::serve::core::Core;
use crate::serve::reported::NamespaceGateways;

/// The parts of a page that every page has.
struct PageBase {
    filter: OverviewFilter,
    namespaces: Arc<NamespaceGateways>,
    gateways: Vec<String>,
    now: i64,
    changes: u64,
}

impl PageBase {
    /// Reads the state that a page shows. `None` while the product ends.
    async fn read(state: &State, filter: OverviewFilter) -> Option<Self> {
        // Before the state, so that a later change loads the page again.
        let changes = *state.health.changes().borrow();
        let names = |core: &Core| {
            let gateways = core.engine.gateway_names().map(|gateway| gateway.to_string());
            (core.reported.namespaces(&core.engine), gateways.collect(), core.engine.now())
        };
        let (namespaces, gateways, now) = state.handle.query(names).await?;
        Some(Self { filter, namespaces, gateways, now, changes })
    }

    fn page(self, title: &str, content: Markup, status: StatusCode) -> Response {
        let Self { filter, namespaces, gateways, now, changes } = self;
        let namespaces = namespaces.keys().map(|name| name.to_string()).collect();
        let known = KnownNames { namespaces, gateways };
        HtmlPage { title: title.to_owned(), filter, known, content, now, changes, status }.response()
    }

    fn error(self, title: &str, why: &str, status: StatusCode) -> Response {
        let content = html! { h1 { (title) } p #verdict class="verdict error" { (plain(why)) } };
        self.page(title, content, status)
    }
}

fn ending() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response()
}

/// `/`
pub(super) async fn overview(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let (filter, why) = match OverviewFilter::read(query) {
        Ok(filter) => (filter, None),
        Err(why) => (OverviewFilter::default(), Some(why)),
    };
    let Some(base) = PageBase::read(&state, filter.clone()).await else { return ending() };
    if let Some(why) = why {
        return base.error("Overview", &why, StatusCode::BAD_REQUEST);
    }
    let fleets = state.fleets.clone();
    let (reported, namespaces) = (state.health.reported(), NamespaceGateways::clone(&base.namespaces));
    let facts = move |core: &Core| OverviewFacts {
        health: reported_health(core, reported, namespaces),
        timeline: core.timeline.clone(),
        published: core.published.clone(),
        envoys: connected(&fleets, &core.engine.outliers()),
        objects: core.engine.objects().clone(),
        not_read: not_read(core),
        now: core.engine.now(),
    };
    let Some(facts) = state.handle.query(facts).await else { return ending() };
    // Decoding the resources takes time, so it does not run on the main loop.
    match tokio::task::spawn_blocking(move || overview::content(facts, &filter)).await {
        Ok(content) => base.page("Overview", content, StatusCode::OK),
        Err(_) => base.error("Overview", "the page could not be made", StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The objects with content that cannot be read now, each with what depends on it.
fn not_read(core: &Core) -> BTreeMap<ObjectKey, ReadEarlier> {
    let graph = core.engine.graph();
    let with_affected = |(key, why): (ObjectKey, String)| {
        let affected = graph.affected(&Node::whole(key.clone())).into_iter().map(|affected| affected.node.key);
        let read = ReadEarlier { why, affected: affected.collect() };
        (key, read)
    };
    core.not_read().into_iter().map(with_affected).collect()
}

/// The reported health, which is that of the last change; before the first report the present one.
fn reported_health(core: &Core, reported: Option<Arc<Health>>, namespaces: NamespaceGateways) -> Health {
    let Some(health) = reported else { return core.health() };
    let settings = Some(SettingsInForce::from(core.engine.settings()));
    Health { settings, namespaces, ..Health::clone(&health) }
}

/// `/object/KIND/NAMESPACE/NAME`
pub(super) async fn object(Extract(state): Extract<State>, Path(object): Path<String>) -> Response {
    let Some(base) = PageBase::read(&state, OverviewFilter::default()).await else { return ending() };
    let target = match object.parse::<DiffTarget>() {
        Ok(target) => target,
        Err(why) => return base.error("Object", &why, StatusCode::NOT_FOUND),
    };
    let title = target.to_string();
    if !state.health.translation.load(Relaxed) {
        let why = "the objects have not been translated yet";
        return base.error(&title, why, StatusCode::SERVICE_UNAVAILABLE);
    }
    let _turn = state.comparison.lock().await;
    let fleets = state.fleets.clone();
    let reported = state.health.reported();
    let facts = state.handle.query(move |core| {
        let envoys = connected(&fleets, &core.engine.outliers());
        let health = reported.unwrap_or_else(|| Arc::new(core.health()));
        let reports = core.reported.reports(&core.engine);
        let diff = DiffFacts::of(core, reports, health.clone(), Some(&target), &envoys).ok();
        facts(core, health, target.0, diff)
    });
    let Some(facts) = facts.await else { return ending() };
    if !facts.is_known() {
        return base.error(&title, &format!("Holdfast has read no object {title}"), StatusCode::NOT_FOUND);
    }
    // Translation takes time, so it does not run on the main loop.
    match tokio::task::spawn_blocking(move || facts.content()).await {
        Ok(content) => base.page(&title, content, StatusCode::OK),
        Err(_) => base.error(&title, "the page could not be made", StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn facts(core: &Core, health: Arc<Health>, key: ObjectKey, diff: Option<DiffFacts>) -> ObjectFacts {
    let engine = &core.engine;
    let now = engine.now();
    let roots = roots(&health, &key);
    ObjectFacts {
        health,
        affected: roots.iter().flat_map(|root| engine.affected_by(root)).collect(),
        roots,
        events: core.recent_events.of(&key, Moment(now)),
        timeline: core.timeline.clone(),
        not_read: core.not_read().remove(&key),
        generation: engine.objects().get(&key).map(|object| object.metadata.generation),
        place: core.places.get(&key).map(|place| format!("{}:{}", place.file, place.line)),
        diff,
        key,
        now,
    }
}

/// `/explain`
pub(super) async fn explain(Extract(state): Extract<State>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let Some(base) = PageBase::read(&state, OverviewFilter::default()).await else { return ending() };
    let form = match ExplainForm::read(query) {
        Ok(form) => form,
        Err(why) => return base.error("Explain a request", &why, StatusCode::BAD_REQUEST),
    };
    let answer = match form.query() {
        Some(query) => Some(explanation(&state, query).await.map_err(|(_, why)| why)),
        None => None,
    };
    let content = form.content(answer.as_ref(), &base.gateways);
    base.page("Explain a request", content, status(answer.as_ref()))
}
