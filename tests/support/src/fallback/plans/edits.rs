//! Random steps of a test scope: edits, deletions, verdicts, time.

use std::collections::BTreeSet;

use holdfast_graph::{Content, Detected, Node, ObjectKey, Verdict};
use holdfast_test_objects::mutate::{self, Choose};
use holdfast_translate::fleet::FleetId;
use serde_json::{Value, json};

use super::{Plans, policies, proxies};
use holdfast_fallback::checker;

/// Certificates with their keys.
const PAIRS: [(&str, &str); 2] = [
    (
        include_str!("../../../../../engine/check/src/certificate/fixtures/rsa2048.crt"),
        include_str!("../../../../../engine/check/src/certificate/fixtures/rsa2048.key"),
    ),
    (
        include_str!("../../../../../engine/check/src/certificate/fixtures/p521.crt"),
        include_str!("../../../../../engine/check/src/certificate/fixtures/p521.key"),
    ),
];

impl Plans {
    /// Performs one random step.
    pub fn step(&mut self, choose: &mut Choose<'_>) {
        match choose(10) {
            0 => self.apply(mutate::mutated(&self.originals, choose)),
            1 => {
                if let Some(document) = pick(&self.originals, choose).cloned() {
                    self.apply(document);
                }
            }
            2 => self.delete(choose),
            3 | 4 => self.edit_object(choose),
            5 | 6 => self.edit_rules(choose),
            7 => self.convict(choose),
            8 => self.now += [1, 60, 200, 400_000_000].get(choose(30)).copied().unwrap_or(5),
            _ => self.promote(),
        }
        self.translator.translate(&self.objects, &mut self.graph);
        let mut derived = self.derived();
        checker::enforce(&mut derived, &self.world());
        let broken: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        self.since.retain(|key, _| broken.contains(key));
        for key in broken {
            self.since.entry(key).or_insert(self.now);
        }
        self.translator.lay_over(&FleetId::main(&self.gateway), derived.overlay);
        self.translator.translate(&self.objects, &mut self.graph);
    }

    fn delete(&mut self, choose: &mut Choose<'_>) {
        let keys: Vec<ObjectKey> = self.objects.sorted().into_iter().map(|object| object.key.clone()).collect();
        let keys: Vec<ObjectKey> = keys.into_iter().chain(self.unusable.iter().cloned()).collect();
        if let Some(key) = pick(&keys, choose).filter(|key| !matches!(&*key.kind, "Gateway" | "GatewayClass")) {
            self.remove(key);
        }
    }

    /// Convicts a random part of the desired content, or acquits a convicted part.
    fn convict(&mut self, choose: &mut Choose<'_>) {
        if choose(4) == 0 {
            let contents: BTreeSet<Content> = self.quarantine.iter().map(|(content, _)| content).collect();
            let contents: Vec<Content> = contents.into_iter().collect();
            if let Some(content) = pick(&contents, choose) {
                self.quarantine.acquit(content);
            }
            return;
        }
        let plans = self.translator.routes();
        let mut contents: Vec<(Content, Node)> =
            plans.values().flat_map(|plan| self.translator.contents(&self.gateway, plan)).collect();
        let certificates = self.translator.certificates(&self.gateway);
        contents.extend(certificates.into_iter().map(|(key, content)| (content, Node::whole(key))));
        let of_policies = self.translator.policies().flat_map(|(key, plan)| {
            plan.contents().map(|(_, content)| (content, Node::whole(key.clone()))).collect::<Vec<_>>()
        });
        contents.extend(of_policies);
        let Some((content, node)) = pick(&contents, choose) else { return };
        let verdict = Verdict {
            node: node.clone(),
            generation: 1,
            detected: Detected::Nack,
            field: "".into(),
            message: "refused".into(),
            since: self.now,
            witnesses: Vec::new(),
        };
        self.quarantine.convict(*content, verdict);
    }

    /// Changes claims, metadata, grants, ports or certificates.
    fn edit_object(&mut self, choose: &mut Choose<'_>) {
        let Some(mut document) = pick(&self.written, choose).cloned() else { return };
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let values: &[(&str, Value)] = &match &*kind {
            "HTTPRoute" | "GRPCRoute" => vec![
                ("/spec/hostnames", json!(["cart.example.com"])),
                ("/spec/hostnames", json!(["*.example.com", "grpc.example.org"])),
                ("/spec/hostnames", json!(["bad..host"])),
                ("/spec/hostnames", json!(["cart.example.com", "bad..host"])),
                ("/spec/hostnames", json!(["*.example.com", "bad..host"])),
                ("/spec/hostnames", json!([])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra"}])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "port": 8443}])),
                ("/spec/parentRefs", json!([{"name": "public", "namespace": "infra", "sectionName": "http"}])),
                ("/spec/parentRefs", json!([{"name": "nobody"}])),
                ("/spec/rules", json!("none")),
            ],
            "ReferenceGrant" => vec![
                ("/spec/from/0/namespace", json!("elsewhere")),
                ("/spec/to/0/name", json!("another")),
                ("/spec/to/0/name", json!("")),
            ],
            "Service" => vec![
                ("/spec/ports/0/port", json!(8080)),
                ("/spec/ports", json!("none")),
                ("/spec/type", json!("ExternalName")),
            ],
            "HTTPProxy" => proxies::values(),
            "TrafficPolicy" => policies::values(),
            "TLSCertificateDelegation" => vec![
                ("/spec/delegations/0/targetNamespaces", json!(["elsewhere"])),
                ("/spec/delegations/0/targetNamespaces", json!(["*"])),
                ("/spec/delegations", json!([])),
            ],
            "Secret" => vec![
                ("/stringData/tls.crt", json!("broken")),
                ("/stringData", pair(choose(2))),
                ("/stringData", json!({"tls.crt": 1})),
            ],
            "Namespace" => vec![("/metadata/labels/team", json!("none"))],
            "Gateway" => vec![
                ("/spec/listeners/1/hostname", json!("cart.example.com")),
                ("/spec/listeners/2/hostname", json!("*.example.org")),
                ("/spec/listeners/3/allowedRoutes", json!({})),
                ("/spec/listeners/2/tls/certificateRefs/0/name", json!("nobody")),
                ("/spec/allowedListeners/namespaces/from", json!("Same")),
            ],
            "ListenerSet" => vec![
                ("/spec/listeners/0/hostname", json!("*.example.com")),
                ("/spec/listeners/1/hostname", json!("cart.example.com")),
                ("/spec/listeners/1/hostname", json!("a_!")),
                ("/spec/listeners/0/allowedRoutes", json!({"namespaces": {"from": "All"}})),
                ("/spec/listeners/1/tls/certificateRefs/0/name", json!("nobody")),
                ("/spec/listeners/1", json!({"name": "tls"})),
                ("/spec/parentRef/name", json!("nobody")),
                ("/spec/parentRef", json!(1)),
            ],
            _ => return,
        };
        match choose(6) {
            0 => put(&mut document, "/metadata/uid", json!(format!("uid-{}", choose(3)))),
            1 => put(&mut document, "/metadata/annotations", json!({"holdfast.dev/fallback": "never"})),
            _ => {
                if let Some((path, value)) = pick(values, choose) {
                    put(&mut document, path, value.clone());
                }
            }
        }
        self.apply(document);
    }

    /// Changes rules of a route: matches, filters, backends, order.
    fn edit_rules(&mut self, choose: &mut Choose<'_>) {
        let has_rules = |document: &&Value| {
            ["/spec/rules/0", "/spec/routes/0"].into_iter().any(|path| document.pointer(path).is_some())
        };
        let routes: Vec<&Value> = self.written.iter().filter(has_rules).collect();
        let Some(mut document) = pick(&routes, choose).map(|document| (*document).clone()) else { return };
        if document.pointer("/spec/routes/0").is_some() {
            proxies::edit_routes(&mut document, choose);
            return self.apply(document);
        }
        for _ in 0..=choose(2) {
            let Some(Value::Array(rules)) = document.pointer_mut("/spec/rules") else { return };
            let (one, other) = (choose(rules.len()), choose(rules.len()));
            let paths = ["/", "/a", "/a/b", "/images", "/a/[0-9]+", "/a/[", ".*"];
            let path = paths.get(choose(paths.len())).copied().unwrap_or("/");
            let style = if path.contains(['[', '*']) { "RegularExpression" } else { "PathPrefix" };
            let filters = [
                json!([]),
                json!([{"type": "CORS", "cors": {"allowOrigins": ["https://example.com"]}}]),
                json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["X-User"]}}]),
                json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-user", "value": "none"}]}}]),
                json!([{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["x-debug"]}}]),
                json!([{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]),
                json!([{"type": "URLRewrite", "urlRewrite": {"hostname": "inside.example.com"}}]),
                json!([{"type": "CORS", "cors": {"allowOrigins": ["*"]}}]),
                json!([{"type": "ExtensionRef"}]),
            ];
            match choose(8) {
                0 => rules.swap(one, other),
                1 if rules.len() > 1 => drop(rules.remove(one)),
                2 => {
                    let rule = rules.get(one).cloned().unwrap_or_default();
                    rules.insert(other, rule);
                }
                3 | 4 => {
                    let rule = rules.get_mut(one);
                    let matches = json!([{"path": {"type": style, "value": path}}]);
                    rule.into_iter().for_each(|rule| put(rule, "/matches", matches.clone()));
                }
                5 => {
                    let own = pick(&filters, choose).cloned().unwrap_or_default();
                    let mut backends = vec![json!({"name": "cart", "port": 80}), json!({"name": "cart", "port": 81})];
                    backends.iter_mut().take(choose(3)).for_each(|backend| put(backend, "/filters", own.clone()));
                    backends.rotate_left(choose(2));
                    rules.get_mut(one).into_iter().for_each(|rule| {
                        put(rule, "/filters", json!([]));
                        put(rule, "/backendRefs", json!(backends));
                    });
                }
                _ => {
                    let filters = pick(&filters, choose).cloned().unwrap_or_default();
                    let rule = rules.get_mut(one);
                    rule.into_iter().for_each(|rule| {
                        let redirects = filters.pointer("/0/requestRedirect").is_some();
                        let backend =
                            if redirects { json!([]) } else { json!([{"name": "cart", "port": 80 + choose(3)}]) };
                        put(rule, "/filters", filters.clone());
                        put(rule, "/backendRefs", backend);
                    });
                }
            }
        }
        self.apply(document);
    }
}

pub(super) fn secret(namespace: &str, name: &str, which: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": pair(which),
    })
}

pub(super) fn pair(which: usize) -> Value {
    PAIRS.get(which).map(|(chain, key)| json!({"tls.crt": chain, "tls.key": key})).unwrap_or_default()
}

pub(super) fn pick<'a, T>(from: &'a [T], choose: &mut Choose<'_>) -> Option<&'a T> {
    from.get(choose(from.len()))
}

/// Sets the value at a path with an existing parent.
pub(super) fn put(document: &mut Value, path: &str, value: Value) {
    let Some((parent, name)) = path.rsplit_once('/') else { return };
    match document.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.insert(name.to_owned(), value)),
        Some(Value::Array(entries)) => {
            if let Some(entry) = name.parse().ok().and_then(|index: usize| entries.get_mut(index)) {
                *entry = value;
            }
        }
        _ => {}
    }
}
