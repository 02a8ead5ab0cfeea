//! Test scopes with HTTPProxies: two roots with guards and TLS, a child of both, a chain of includes.

use holdfast_test_objects::mutate::Choose;
use holdfast_translate::httpproxy::listeners;
use serde_json::{Value, json};

use super::{Plans, edits};

/// The sample of HTTPProxies.
const SAMPLE: &str = include_str!("proxies.yaml");

impl Plans {
    /// Creates the sample of HTTPProxies, all last valid, with random feature gates.
    pub fn of_proxies(choose: &mut Choose<'_>) -> Self {
        let mut originals = holdfast_test_objects::documents(SAMPLE);
        originals.push(edits::secret("infra", "wildcard", 0));
        Self::around(listeners::key(), originals, Self::chosen(choose))
    }
}

/// Edits of fields that claim hosts, attach routes or protect them: paths and new values.
pub(super) fn values() -> Vec<(&'static str, Value)> {
    vec![
        ("/spec/virtualhost/fqdn", json!("other.example.com")),
        ("/spec/virtualhost/fqdn", json!("new.example.com")),
        ("/spec/virtualhost/fqdn", json!("bad..host")),
        ("/spec/virtualhost/ipDenyPolicy", json!([{"source": "Peer", "cidr": "10.1.0.0/16"}])),
        ("/spec/virtualhost/ipAllowPolicy", json!([{"source": "Peer", "cidr": "ten"}])),
        ("/spec/virtualhost/tls", json!({"secretName": "nobody"})),
        ("/spec/virtualhost/tls", json!({"secretName": "infra/wildcard"})),
        ("/spec/virtualhost/corsPolicy", json!({"allowOrigin": [], "allowMethods": ["GET"]})),
        ("/spec/includes", json!([])),
        ("/spec/includes", json!([{"name": "cart"}])),
        ("/spec/includes", json!([{"name": "deep", "namespace": "stock", "conditions": [{"prefix": "/x"}]}])),
        ("/spec/includes/0/conditions", json!([{"prefix": "/moved"}])),
        ("/spec/includes/0/conditions", json!([{"exact": "/moved"}])),
        ("/spec/includes/0/name", json!("nobody")),
        ("/spec/ingressClassName", json!("another")),
        ("/spec/routes", json!("none")),
        ("/spec/virtualhost", json!("none")),
    ]
}

/// Changes routes of an HTTPProxy: conditions, guards, Services, order.
pub(super) fn edit_routes(document: &mut Value, choose: &mut Choose<'_>) {
    for _ in 0..=choose(2) {
        let Some(Value::Array(routes)) = document.pointer_mut("/spec/routes") else { return };
        let (one, other) = (choose(routes.len()), choose(routes.len()));
        let paths = ["/", "/a", "/admin", "/admin/x", "/items/[0-9]+", "/items/[", "no slash"];
        let path = paths.get(choose(paths.len())).copied().unwrap_or("/");
        let kind = if path.contains('[') { "regex" } else { "prefix" };
        let guards = [
            ("ipAllowPolicy", json!([{"source": "Remote", "cidr": "192.168.0.0/16"}])),
            ("ipAllowPolicy", json!([{"source": "Remote", "cidr": "192.168"}])),
            ("ipDenyPolicy", json!([{"source": "Peer", "cidr": "10.0.0.0/8"}])),
            ("rateLimitPolicy", json!({"local": {"requests": 9, "unit": "second"}})),
            ("rateLimitPolicy", json!({"local": "none"})),
            ("requestHeadersPolicy", json!({"remove": ["X-User"]})),
            ("responseHeadersPolicy", json!({"remove": ["x-debug"]})),
            ("permitInsecure", json!(true)),
            ("permitInsecure", json!("yes")),
            ("jwtVerificationPolicy", json!({"require": "nobody"})),
            ("services", json!([{"name": "nobody", "port": 80}])),
            ("services", json!([{"name": "cart", "port": 81}])),
            ("timeoutPolicy", json!({"response": "soon"})),
        ];
        match choose(7) {
            0 => routes.swap(one, other),
            1 if routes.len() > 1 => drop(routes.remove(one)),
            2 => {
                let route = routes.get(one).cloned().unwrap_or_default();
                routes.insert(other, route);
            }
            3 | 4 => {
                let conditions = json!([{ kind: path }]);
                let route = routes.get_mut(one);
                route.into_iter().for_each(|route| edits::put(route, "/conditions", conditions.clone()));
            }
            _ => {
                let Some((name, value)) = edits::pick(&guards, choose) else { return };
                let route = routes.get_mut(one);
                route.into_iter().for_each(|route| edits::put(route, &format!("/{name}"), value.clone()));
            }
        }
    }
}
