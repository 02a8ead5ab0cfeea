//! Short forms of objects, and the fields that stories leave out: generations, UIDs, certificates.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::stage::BEGIN_MS;
use crate::tls::{Certificate, CertificateLife};

const API: &str = "gateway.networking.k8s.io/v1";
const GRANTS: &str = "gateway.networking.k8s.io/v1beta1";

/// The time at which stories begin, in seconds.
const BEGIN: i64 = BEGIN_MS as i64 / 1000;

/// Expands the short forms of a story to complete objects. Remembers generations, UIDs and certificates.
#[derive(Default)]
pub struct ObjectWriter {
    certificates: BTreeMap<String, Certificate>,
    generations: BTreeMap<String, (Value, i64)>,
    incarnations: BTreeMap<String, u32>,
}

impl ObjectWriter {
    /// Returns the objects of a text.
    pub fn objects(&mut self, text: &str) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for document in holdfast_test_support::documents(text) {
            objects.extend(self.whole(document)?);
        }
        objects.iter_mut().for_each(|object| self.complete(object));
        Ok(objects)
    }

    /// Records the deletion of an object: the next object of this name has another UID.
    pub fn deleted(&mut self, name: &str) {
        *self.incarnations.entry(name.to_owned()).or_insert(0) += 1;
        self.generations.remove(name);
    }

    /// Returns the name of the certificate that this text contains.
    pub fn certificate_in(&self, text: &str) -> Option<&str> {
        self.certificates.iter().find(|(_, known)| text.contains(known.pem.trim())).map(|(name, _)| &**name)
    }

    fn whole(&mut self, document: Value) -> Result<Vec<Value>> {
        if document.get("apiVersion").is_some() {
            return Ok(vec![document]);
        }
        let text = |field: &str| document.get(field).and_then(Value::as_str);
        if let Some(name) = text("route") {
            return Ok(vec![route("HTTPRoute", name, &document)]);
        }
        if let Some(name) = text("proxy") {
            return Ok(vec![super::short_proxies::proxy(name, &document)]);
        }
        if let Some(name) = text("delegation") {
            return Ok(vec![super::short_proxies::delegation(name, &document)]);
        }
        for (field, kind) in [("policy", "TrafficPolicy"), ("listenerPolicy", "ListenerPolicy")] {
            if let Some(name) = text(field) {
                return Ok(vec![super::short_policies::policy(kind, name, &document)]);
            }
        }
        for (field, kind) in [("extension", "GatewayExtension"), ("directResponse", "DirectResponse")] {
            if let Some(name) = text(field) {
                return Ok(vec![super::short_policies::other(kind, name, &document)]);
            }
        }
        if let Some(name) = text("service") {
            return Ok(service(name, &document));
        }
        if let Some(name) = text("endpoints") {
            return Ok(vec![slice(name, &document)]);
        }
        if text("basics").is_some() {
            let basics =
                "{class: holdfast}\n---\n{gateway: infra/public}\n---\n{service: shop/a}\n---\n{service: shop/b}";
            let documents = holdfast_test_support::documents(basics);
            let whole = documents.into_iter().map(|document| self.whole(document)).collect::<Result<Vec<_>>>()?;
            return Ok(whole.concat());
        }
        if let Some(name) = text("class") {
            let controller = text("controller").unwrap_or("holdfast.dev/gateway-controller");
            return Ok(vec![object(API, "GatewayClass", name, &document, json!({ "controllerName": controller }))]);
        }
        if let Some(name) = text("gateway") {
            let class = text("class_name").unwrap_or("holdfast");
            let mut spec = json!({ "gatewayClassName": class, "listeners": listeners(&document) });
            if let (Some(from), Some(fields)) = (text("sets"), spec.as_object_mut()) {
                fields.insert("allowedListeners".into(), json!({ "namespaces": { "from": from } }));
            }
            if let (Some(scope), Some(fields)) = (text("scope"), spec.as_object_mut()) {
                fields.insert("defaultScope".into(), scope.into());
            }
            return Ok(vec![object(API, "Gateway", name, &document, spec)]);
        }
        if let Some(name) = text("set") {
            let (namespace, gateway) = text("of").unwrap_or("infra/public").split_once('/').context("of: no slash")?;
            let parent = json!({ "namespace": namespace, "name": gateway });
            let spec = json!({ "parentRef": parent, "listeners": listeners(&document) });
            return Ok(vec![object(API, "ListenerSet", name, &document, spec)]);
        }
        if let Some(name) = text("secret") {
            let life = |of: &Value| {
                let seconds = |field: &str| of.get(field).and_then(Value::as_i64);
                CertificateLife { begins: seconds("begins"), expires: seconds("expires") }
            };
            let (dates, issuer) = (life(&document), document.get("issuer").map(life));
            let certificate = self.certificate(text("certificate").unwrap_or(name), dates, issuer)?;
            let key = match text("key") {
                Some(name) => self.certificate(name, CertificateLife::default(), None)?.key_pem,
                None => certificate.key_pem.clone(),
            };
            let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
            let data = json!({ "tls.crt": encoded(&certificate.pem), "tls.key": encoded(&key) });
            let mut secret = object("v1", "Secret", name, &document, json!({}));
            if let Some(fields) = secret.as_object_mut() {
                fields.remove("spec");
                fields.insert("type".into(), "kubernetes.io/tls".into());
                fields.insert("data".into(), document.get("data").cloned().unwrap_or(data));
            }
            return Ok(vec![secret]);
        }
        if let Some(namespace) = text("grant") {
            let from = json!({ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": text("from") });
            let to = json!({ "group": "", "kind": "Service" });
            let name = format!("{namespace}/{}", text("from").unwrap_or_default());
            let spec = json!({ "from": [from], "to": [to] });
            return Ok(vec![object(GRANTS, "ReferenceGrant", &name, &document, spec)]);
        }
        anyhow::bail!("neither an object nor the short form of one: {document}")
    }

    fn certificate(
        &mut self,
        name: &str,
        life: CertificateLife,
        issuer: Option<CertificateLife>,
    ) -> Result<Certificate> {
        if let Some(known) = self.certificates.get(name) {
            return Ok(known.clone());
        }
        let made = match issuer {
            Some(issuer) => Certificate::issued(&["shop.test"], life, issuer, BEGIN),
            None => Certificate::living(&["shop.test"], life, BEGIN),
        };
        let made = made.context("no certificate")?;
        self.certificates.insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// Adds generation and UID, as an API server does.
    fn complete(&mut self, object: &mut Value) {
        let name = name_of(object);
        let spec: Map<String, Value> = object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, _)| *field != "metadata")
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        let spec = Value::Object(spec);
        let generation = match self.generations.get(&name) {
            Some((known, generation)) if *known == spec => *generation,
            Some((_, generation)) => generation + 1,
            None => 1,
        };
        self.generations.insert(name.clone(), (spec, generation));
        let incarnation = self.incarnations.get(&name).copied().unwrap_or_default();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("generation").or_insert_with(|| generation.into());
            metadata.entry("uid").or_insert_with(|| format!("{name}#{incarnation}").into());
        }
    }
}

/// `Kind/namespace/name`, or `Kind/name`.
pub fn name_of(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let parts = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

pub(super) fn object(version: &str, kind: &str, name: &str, document: &Value, spec: Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut metadata = json!({ "name": name });
    if let Some(fields) = metadata.as_object_mut() {
        if !namespace.is_empty() {
            fields.insert("namespace".into(), namespace.into());
        }
        for field in ["annotations", "labels", "uid"] {
            fields.extend(document.get(field).map(|value| (field.to_owned(), value.clone())));
        }
        fields.extend(document.get("created").map(|value| ("creationTimestamp".to_owned(), value.clone())));
    }
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// Listeners of a Gateway or ListenerSet; they allow routes of all namespaces by default.
fn listeners(document: &Value) -> Value {
    let all = json!([{ "name": "http", "port": 80, "protocol": "HTTP" }]);
    let mut listeners = document.get("listeners").cloned().unwrap_or(all);
    for listener in listeners.as_array_mut().into_iter().flatten() {
        if let Some(fields) = listener.as_object_mut() {
            fields.entry("allowedRoutes").or_insert_with(|| json!({ "namespaces": { "from": "All" } }));
        }
    }
    listeners
}

fn route(kind: &str, name: &str, document: &Value) -> Value {
    let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
    let parent = |text: &str| {
        let (kind, text) = match text.strip_prefix("set ") {
            Some(text) => ("ListenerSet", text),
            None => ("Gateway", text),
        };
        let (gateway, section) =
            text.split_once('#').map_or((text, None), |(gateway, section)| (gateway, Some(section)));
        let (namespace, name) = gateway.split_once('/').unwrap_or(("", gateway));
        match section {
            Some(section) => {
                json!({ "kind": kind, "namespace": namespace, "name": name, "sectionName": section })
            }
            None => json!({ "kind": kind, "namespace": namespace, "name": name }),
        }
    };
    let list = |field: &str, default: Value| match document.get(field) {
        Some(Value::Array(values)) => values.clone(),
        Some(value) => vec![value.clone()],
        None => vec![default],
    };
    let at = list("at", "infra/public".into());
    let (defaults, named): (Vec<&str>, Vec<&str>) =
        at.iter().filter_map(Value::as_str).partition(|text| *text == "defaults");
    let parents: Vec<Value> = named.into_iter().map(parent).collect();
    let hosts = list("host", "shop.test".into());
    let own = document.get("rules").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![document.clone()]);
    let rules: Vec<Value> = own.iter().map(|entry| rule(namespace, entry)).collect();
    let mut spec = json!({ "parentRefs": parents, "hostnames": hosts, "rules": rules });
    if let (false, Some(fields)) = (defaults.is_empty(), spec.as_object_mut()) {
        fields.insert("useDefaultGateways".into(), "All".into());
    }
    object(API, kind, name, document, spec)
}

fn rule(namespace: &str, entry: &Value) -> Value {
    let mut matched = Map::new();
    for (field, kind) in [("path", "PathPrefix"), ("exact", "Exact"), ("regex", "RegularExpression")] {
        if let Some(value) = entry.get(field) {
            matched.insert("path".into(), json!({ "type": kind, "value": value }));
        }
    }
    for (field, kind) in [("headers", "Exact"), ("headersMatching", "RegularExpression")] {
        if let Some(headers) = entry.get(field).and_then(Value::as_object) {
            let headers = headers.iter().map(|(name, value)| json!({ "name": name, "type": kind, "value": value }));
            matched.insert("headers".into(), headers.collect());
        }
    }
    if let Some(method) = entry.get("method") {
        matched.insert("method".into(), method.clone());
    }
    let mut rule = Map::new();
    if !matched.is_empty() {
        rule.insert("matches".into(), json!([matched]));
    }
    let mut filters: Vec<Value> = request_headers(entry).into_iter().collect();
    if let Some(host) = entry.get("rewriteHost") {
        filters.push(json!({ "type": "URLRewrite", "urlRewrite": { "hostname": host } }));
    }
    if let Some(names) = entry.get("withhold") {
        filters.push(json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": { "remove": names } }));
    }
    if let Some(name) = entry.get("guard") {
        let reference = json!({ "group": "example.test", "kind": "Guard", "name": name });
        filters.push(json!({ "type": "ExtensionRef", "extensionRef": reference }));
    }
    if let Some(scheme) = entry.get("redirect") {
        filters.push(json!({ "type": "RequestRedirect", "requestRedirect": { "scheme": scheme } }));
    }
    if let Some(server) = entry.get("auth").and_then(Value::as_str) {
        let (own, name) = server.split_once('/').unwrap_or((namespace, server));
        let server = json!({ "name": name, "namespace": own, "port": 80 });
        let auth = json!({ "protocol": "GRPC", "backendRef": server, "grpc": {} });
        filters.push(json!({ "type": "ExternalAuth", "externalAuth": auth }));
    }
    filters.extend(super::short_policies::extensions(entry));
    if let Some(name) = entry.get("named") {
        rule.insert("name".into(), name.clone());
    }
    if !filters.is_empty() {
        rule.insert("filters".into(), filters.into());
    }
    let backends = match entry.get("to") {
        Some(Value::Array(values)) => values.clone(),
        Some(value) => vec![value.clone()],
        None => vec![],
    };
    let at_backends = entry.get("atBackends");
    let backend = |(index, text): (usize, &str)| {
        let (own, name) = text.split_once('/').unwrap_or((namespace, text));
        let removed = entry.get("removeAtBackends");
        let filter = |names| json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": names } });
        let mut filters: Vec<Value> = removed.map(filter).into_iter().collect();
        filters.extend(at_backends.and_then(|all| all.get(index)?.as_array()).into_iter().flatten().cloned());
        match filters.is_empty() {
            true => json!({ "name": name, "namespace": own, "port": 80 }),
            false => json!({ "name": name, "namespace": own, "port": 80, "filters": filters }),
        }
    };
    rule.insert("backendRefs".into(), backends.iter().filter_map(Value::as_str).enumerate().map(backend).collect());
    Value::Object(rule)
}

/// The filter for request headers that a rule adds, sets or removes.
fn request_headers(entry: &Value) -> Option<Value> {
    let list = |field: &str| {
        let headers = entry.get(field).and_then(Value::as_object)?;
        Some(headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Value>())
    };
    let remove = entry.get("remove").cloned();
    let fields = [("add", list("add")), ("set", list("set")), ("remove", remove)];
    let fields: Map<_, _> = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let filter = || json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": fields });
    (!fields.is_empty()).then(filter)
}

fn service(name: &str, document: &Value) -> Vec<Value> {
    let port = document.get("port").cloned().unwrap_or_else(|| 80.into());
    let mut entry = json!({ "name": "http", "port": port });
    for field in ["appProtocol", "protocol"] {
        if let (Some(fields), Some(value)) = (entry.as_object_mut(), document.get(field)) {
            fields.insert(field.into(), value.clone());
        }
    }
    vec![object("v1", "Service", name, document, json!({ "ports": [entry] })), slice(name, document)]
}

fn slice(name: &str, document: &Value) -> Value {
    let service = name.split_once('/').map_or(name, |(_, name)| name);
    let mut slice = object("discovery.k8s.io/v1", "EndpointSlice", &format!("{name}-1"), &json!({}), json!({}));
    let addresses = document.get("addresses").cloned().unwrap_or_else(|| json!(["10.0.0.1"]));
    if let Some(fields) = slice.as_object_mut() {
        fields.remove("spec");
        fields.insert("addressType".into(), "IPv4".into());
        fields.insert("ports".into(), json!([{ "name": "http", "port": 3000 }]));
        let each = addresses.as_array().into_iter().flatten().map(|address| json!({ "addresses": [address] }));
        fields.insert("endpoints".into(), each.collect());
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels".into(), json!({ "kubernetes.io/service-name": service }));
        }
    }
    slice
}
