//! The way of a request, with the Gateway that receives it and the reason of a replacement.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::section::ObjectSection;
use holdfast_engine::engine::{Action, Engine};
use holdfast_engine::report::{GatewayView, ListenerView, ReplacementView};
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_envoy::explain::request::ExplainRequest;
use holdfast_envoy::explain::{Explanation, RouteCandidate, explain};
use holdfast_xds::Snapshot;
use serde::Serialize;

use crate::failure::Failure;

/// The scope of a replacement of a single rule.
const RULE: &str = "rule";

/// The contents of the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplainReport {
    /// Method.
    pub(super) method: String,
    /// URL.
    pub(super) url: String,
    /// `namespace/name` of the Gateway that receives the request, if there is one.
    pub(super) gateway: Option<Arc<str>>,
    /// The way of the request.
    #[serde(flatten)]
    pub(super) way: Explanation,
    /// The replacement that the answer is, or that a part of the requests gets.
    pub(super) replacement: Option<ReplacementView>,
    /// Whether the request is served as desired.
    pub(super) outcome: RequestOutcome,
}

/// Whether a request is served as desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RequestOutcome {
    /// It reaches a backend, or gets a redirect or response that a route specifies.
    Served,
    /// It gets an error or a replacement, or no connection.
    NotServed,
    /// A condition cannot be evaluated.
    Unknown,
}

impl ExplainReport {
    /// Explains a request at the Gateway with a listener at its port, or at the wanted one.
    pub(super) fn new(
        engine: &Engine,
        actions: &[Action],
        mut request: ExplainRequest,
        url: &str,
        wanted: Option<&str>,
    ) -> Result<Self, Failure> {
        let gateways = engine.gateways();
        let gateway = select(&gateways, request.port, wanted)?;
        if let Some(gateway) = gateway {
            let listeners = gateway.listeners.iter();
            let mut ports = listeners.filter(|listener| listener.declared_port == i32::from(request.port));
            // Low ports may be shifted.
            request.port = ports.next().map_or(request.port, |listener| listener.port);
        }
        let name = gateway.map(|gateway| gateway.name.clone());
        let published = actions.iter().rev().find_map(|action| match action {
            Action::Publish { gateway, offers } if Some(gateway) == name.as_ref() => Some(&offers.everyone),
            _ => None,
        });
        let way = explain(published.unwrap_or(&Snapshot::default()), &request);
        let replacement = name.as_ref().and_then(|name| replacement(engine, name, &way));
        let outcome = match &way.answer {
            ExplainedAnswer::Unknown { .. } => RequestOutcome::Unknown,
            answer if answer.is_served() && replacement.is_none() => RequestOutcome::Served,
            _ => RequestOutcome::NotServed,
        };
        Ok(Self { method: request.method, url: url.to_owned(), gateway: name, way, replacement, outcome })
    }
}

/// Returns the Gateway that receives requests of a port: the wanted one, or the only one with such a listener. A
/// listener that is not served counts only if no other has the port.
pub(super) fn select<'g>(
    gateways: &'g [GatewayView],
    port: u16,
    wanted: Option<&str>,
) -> Result<Option<&'g GatewayView>, Failure> {
    if let Some(wanted) = wanted {
        let found = gateways.iter().find(|gateway| &*gateway.name == wanted);
        let missing = || Failure::usage(format!("--gateway {wanted}: no such Gateway is served from these manifests"));
        return found.map(Some).ok_or_else(missing);
    }
    let with_port = |is_served: bool| {
        let fits = move |listener: &ListenerView| {
            listener.declared_port == i32::from(port) && (listener.serving || !is_served)
        };
        let found = gateways.iter().filter(move |gateway| gateway.listeners.iter().any(fits));
        found.collect::<Vec<&GatewayView>>()
    };
    let served = with_port(true);
    let found = if served.is_empty() { with_port(false) } else { served };
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let names: Vec<&str> = several.iter().map(|gateway| &*gateway.name).collect();
            let names = names.join(", ");
            Err(Failure::usage(format!(
                "several Gateways have a listener at port {port}, select one with --gateway: {names}"
            )))
        }
    }
}

/// Returns the replacement that the route of the request is, or that a part of its requests gets.
fn replacement(engine: &Engine, gateway: &str, way: &Explanation) -> Option<ReplacementView> {
    let route = way.routes.last().filter(|route| route.why_not.is_none())?;
    let may_be = match &way.answer {
        ExplainedAnswer::Response { .. } => true,
        ExplainedAnswer::Backends { backends } => backends.iter().any(|backend| backend.error.is_some()),
        _ => false,
    };
    let of_gateway = |view: &ReplacementView| may_be && view.gateway == gateway;
    let all: Vec<ReplacementView> = engine.replacements().into_iter().filter(of_gateway).collect();
    let rule = section(engine, route);
    let is_own = |view: &&ReplacementView| {
        view.scope == RULE && Some(&view.object) == route.object.as_ref() && Some(&view.section) == rule.as_ref()
    };
    let is_wider = |view: &&ReplacementView| {
        view.scope != RULE && route.object.as_ref().is_none_or(|object| *object == view.object)
    };
    all.iter().find(is_own).or_else(|| all.iter().find(is_wider)).cloned()
}

/// Returns the section of the rule of a route: of a rule with a name, by its index in the object.
fn section(engine: &Engine, route: &RouteCandidate) -> Option<String> {
    let (object, rule) = (route.object.as_ref()?, route.rule.as_ref()?);
    let named = engine.objects().get(object).and_then(|object| match &object.body {
        Body::HttpRoute(route) => route.rules.iter().position(|entry| entry.name() == Some(rule)),
        Body::GrpcRoute(route) => route.rules.iter().position(|entry| entry.name() == Some(rule)),
        _ => None,
    });
    Some(named.map_or_else(|| rule.clone(), |index| ObjectSection::Rule(index).to_string()))
}
