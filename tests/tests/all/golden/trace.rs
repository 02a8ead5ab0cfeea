//! Tracing of a request through the published resources, as Envoy matches it: filter chain, virtual host, route.
//!
//! `METHOD host[:port]/path[?query] [name=value…] [→ expected]`. Each name is a header, except `gateway`
//! (`namespace/name`, necessary with several Gateways) and `sni` (default: the host; empty: no server name). The
//! expected answer consists of alternatives separated by `|`, and an alternative of texts separated by `&`. The answer
//! must contain all texts of one alternative.

use holdfast_engine::engine::Engine;
use holdfast_xds::{ResourceType, to_json};
use serde_json::{Value, json};

use super::matcher;

/// A request with its expected answer.
#[derive(Clone, Debug)]
pub(super) struct TracedRequest {
    text: String,
    expected: Option<String>,
    gateway: Option<String>,
    port: Option<u16>,
    sni: Option<String>,
    request: RoutedRequest,
}

/// The properties of a request that routes match.
#[derive(Clone, Debug)]
pub(super) struct RoutedRequest {
    /// Method.
    pub(super) method: String,
    /// Host, without port.
    pub(super) host: String,
    /// Path, without query.
    pub(super) path: String,
    /// Query parameters; the first of each name is matched.
    pub(super) query: Vec<(String, String)>,
    /// Headers, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
}

impl TracedRequest {
    /// Parses a request.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let (text, expected) = match line.split_once(" → ") {
            Some((text, expected)) => (text, Some(expected.to_owned())),
            None => (line, None),
        };
        let mut words = text.split_whitespace();
        let (Some(method), Some(url)) = (words.next(), words.next()) else {
            return Err(format!("{text:?} is not METHOD host/path"));
        };
        let at = url.find('/').ok_or_else(|| format!("{url:?} has no path"))?;
        let (authority, target) = url.split_at(at);
        let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |text: &str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.to_owned(), value.to_owned())
        };
        let mut traced = Self {
            text: text.to_owned(),
            expected,
            gateway: None,
            port: port.map(|port| port.parse().map_err(|error| format!("{port}: {error}"))).transpose()?,
            sni: None,
            request: RoutedRequest {
                method: method.to_owned(),
                host: host.to_owned(),
                path: path.to_owned(),
                query: query.split('&').filter(|text| !text.is_empty()).map(pair).collect(),
                headers: Vec::new(),
            },
        };
        for (name, value) in words.map(pair) {
            match &*name {
                "gateway" => traced.gateway = Some(value),
                "sni" => traced.sni = Some(value),
                _ => traced.request.headers.push((name, value)),
            }
        }
        Ok(traced)
    }

    /// Returns `request → answer`.
    pub(super) fn trace(&self, engine: &Engine) -> Value {
        json!(format!("{} → {}", self.text, self.answer(engine)))
    }

    /// Checks that the answer is the one that the case expects.
    pub(super) fn check(&self, engine: &Engine) -> Result<(), String> {
        let Some(expected) = &self.expected else { return Ok(()) };
        let answer = self.answer(engine);
        let holds = |all: &str| all.split('&').all(|text| answer.contains(text.trim()));
        if expected.split('|').any(holds) {
            return Ok(());
        }
        Err(format!("{} → {answer}, where {expected} is expected", self.text))
    }

    fn answer(&self, engine: &Engine) -> String {
        let views = engine.gateways();
        let view = match &self.gateway {
            Some(name) => views.iter().find(|view| *view.name == **name),
            None => views.first(),
        };
        let Some(snapshot) = view.and_then(|view| engine.fleet(&view.name)) else { return "no such Gateway".into() };
        let listeners: Vec<Value> =
            snapshot.of(ResourceType::Listener).values().map(|r| to_json(ResourceType::Listener, &r.body)).collect();
        let port = |listener: &Value| listener["address"]["socketAddress"]["portValue"].as_u64();
        let listener = match self.port {
            Some(wanted) => listeners.iter().find(|listener| port(listener) == Some(wanted.into())),
            None => listeners.first(),
        };
        let Some(listener) = listener else { return "nothing listens there".into() };
        let chain = match matcher::chain(listener, self.sni.as_deref().unwrap_or(&self.request.host)) {
            Ok(chain) => chain,
            Err(why) => return why,
        };
        let filters = chain["filters"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(stream) = filters.iter().find(|filter| filter["name"] == "envoy.filters.network.tcp_proxy") {
            let ends = if chain.get("transportSocket").is_some() { "here" } else { "there" };
            return format!("{}: TLS ends {ends}", matcher::clusters(&stream["typedConfig"]));
        }
        let manager = &chain["filters"][0]["typedConfig"];
        let Some(table) = manager["rds"]["routeConfigName"].as_str() else { return "connection refused".into() };
        let Some(routes) = snapshot.get(ResourceType::Route, table) else { return format!("no {table}: 404") };
        let tls = chain.get("transportSocket").is_some();
        let own_port = port(listener).unwrap_or_default();
        matcher::answer(&to_json(ResourceType::Route, &routes.body), &self.request, tls, own_port)
    }
}
