//! Tests of decoding: what is an error, and of which part.

use serde_json::json;

use super::*;
use crate::apis::Body;
use crate::apis::contour::http_proxy::ProxyEntry;

fn route() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "public"}], "hostnames": ["shop.test"], "rules": [{}]},
        "status": {"anything": true},
    })
}

fn in_a_file(document: Value) -> Decoded {
    decode(document, Some(Source { file: "cart.yaml".into(), line: 1 }))
}

/// Returns the fields of the errors, or `None` where the document is no object.
fn errors(decoded: &Decoded) -> Option<Vec<&str>> {
    let (Decoded::Object(_, faults) | Decoded::Unusable(_, faults)) = decoded else { return None };
    Some(faults.iter().filter(|fault| fault.is_error()).map(|fault| &*fault.field).collect())
}

#[test]
fn unknown_fields_are_errors_in_manifests_only() {
    for (place, field) in [
        ("/metadata", "metadata.tags"),
        ("", "hostnames"),
        ("/spec", "spec.hosts"),
        ("/spec/parentRefs/0", "spec.parentRefs[0].listener"),
        ("/spec/rules/0", "spec.rules[0].filter"),
    ] {
        let mut document = route();
        let name = field.rsplit('.').next().unwrap_or_default();
        let part = document.pointer_mut(place).and_then(Value::as_object_mut);
        part.into_iter().for_each(|part| drop(part.insert(name.to_owned(), json!([]))));
        let decoded = in_a_file(document.clone());
        assert_eq!(errors(&decoded), Some(vec![field]), "{decoded:?}");
        // Only the rule with the field is broken.
        assert_eq!(matches!(decoded, Decoded::Object(..)), place == "/spec/rules/0", "{decoded:?}");
        assert_eq!(errors(&decode(document, None)), Some(vec![]));
    }
}

#[test]
fn fields_of_the_experimental_channel_are_no_errors() {
    let mut document = route();
    document["spec"]["rules"][0]["retry"] = json!({"attempts": 2});
    document["metadata"]["managedFields"] = json!([]);
    document["spec"]["useDefaultGateways"] = json!("All");
    let decoded = in_a_file(document);
    assert_eq!(errors(&decoded), Some(vec![]), "{decoded:?}");
    for kind in ["TCPRoute", "TLSRoute", "UDPRoute"] {
        let decoded = in_a_file(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
            "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"useDefaultGateways": "All", "parentRefs": [{"name": "public"}], "rules": [{"backendRefs": []}]},
        }));
        assert!(matches!(decoded, Decoded::Object(..)), "{decoded:?}");
        assert_eq!(errors(&decoded), Some(vec![]), "{decoded:?}");
    }
}

#[test]
fn a_gateway_with_unreadable_addresses_is_not_bound_elsewhere() {
    for addresses in
        [json!({"addresses": "10.0.0.1"}), json!({"addresses": [{"val": "10.0.0.1"}]}), json!({"adresses": []})]
    {
        let mut document = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "public", "namespace": "shop"},
            "spec": {"gatewayClassName": "holdfast", "listeners": []},
        });
        let added = addresses.as_object().into_iter().flatten();
        added.for_each(|(name, value)| document["spec"][name] = value.clone());
        assert!(matches!(in_a_file(document), Decoded::Unusable(..)), "{addresses}");
    }
}

#[test]
fn a_misspelt_required_field_is_one_error() {
    let mut document = route();
    document["spec"]["parentRefs"] = json!([{"nmae": "public"}]);
    assert_eq!(errors(&in_a_file(document)), Some(vec!["spec.parentRefs[0].nmae"]));
}

#[test]
fn without_a_known_namespace_an_object_has_no_name() {
    let mut document = route();
    document["metadata"] = json!({"name": "cart", "ns": "shop"});
    assert!(matches!(in_a_file(document), Decoded::Nameless(why) if why.contains("metadata.ns")));
    let mut document = route();
    document["metadata"] = json!({"name": "cart"});
    assert!(matches!(in_a_file(document), Decoded::Object(object, _) if *object.key.namespace == *"default"));
}

#[test]
fn kept_conditions_do_not_narrow_those_of_the_route() {
    let proxy = |conditions: Value| {
        let document = json!({
            "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
            "metadata": {"name": "cart", "namespace": "shop"},
            "spec": {"virtualhost": {"fqdn": "shop.test"}, "routes": [{"conditions": conditions}]},
        });
        let Decoded::Object(object, _) = in_a_file(document) else { unreachable!("the host is readable") };
        object.body
    };
    let before = proxy(json!([{"prefix": "/admin"}, {"header": {"name": "x", "present": true}}]));
    let kept = |conditions: Value| {
        let mut now = proxy(conditions);
        now.keep_matches(&before);
        let Body::HttpProxy(now) = now else { unreachable!() };
        let Some(ProxyEntry::Broken { conditions, .. }) = now.routes.first() else { unreachable!("{now:?}") };
        conditions
            .iter()
            .map(|one| (one.prefix.clone().unwrap_or_default().to_string(), one.header.is_some()))
            .collect()
    };
    let own: Vec<(String, bool)> = kept(json!([{"prefix": "/secret"}, {"haeder": {"name": "x"}}]));
    assert_eq!(own, [("/admin".into(), false), ("/secret".into(), false), (String::new(), false)]);
    let nothing: Vec<(String, bool)> = kept(json!("/admin"));
    assert_eq!(nothing, [("/admin".into(), false), (String::new(), true)]);
}

#[test]
fn misplaced_parts_of_the_tls_of_a_gateway_are_not_lost() {
    let certificate = json!({"clientCertificateRef": {"name": "own"}});
    let spec = |extra: Value| {
        let mut spec = json!({"gatewayClassName": "holdfast", "listeners": []});
        let fields = spec.as_object_mut().unwrap();
        fields.extend(extra.as_object().unwrap().clone());
        spec
    };
    let read = |extra: Value, source: Option<Source>| {
        let document = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "public", "namespace": "infra"}, "spec": spec(extra),
        });
        match decode(document, source) {
            Decoded::Object(object, faults) => match &object.body {
                Body::Gateway(gateway) => {
                    (gateway.tls.clone(), faults.iter().any(|fault| fault.is_error() && fault.field == "spec.tls"))
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let file = || Some(Source { file: "gateway.yaml".into(), line: 1 });
    for extra in [
        json!({"tsl": {"backend": certificate.clone()}}),
        json!({"tls": certificate.clone()}),
        json!({"tls": {"upstream": certificate.clone()}}),
        json!({"backend": certificate.clone()}),
        json!({"tlsConfig": {}}),
        json!({"security": {"outgoing": certificate.clone()}}),
        json!({"clientCert": {"name": "own"}}),
    ] {
        let (tls, _) = read(extra.clone(), file());
        assert_eq!(tls.backend, Some(None), "{extra}");
        assert_eq!(tls.frontend, Some(None), "{extra}");
    }
    assert!(read(json!({"backend": certificate.clone()}), file()).1, "the effect has a fault of the same part");
    // Parts that are read stay, and other unknown fields, and those that an API server knows, concern no TLS.
    let (tls, _) = read(json!({"tls": {"backend": certificate.clone()}, "tlsConfig": {}}), file());
    assert!(tls.backend.flatten().is_some() && tls.frontend == Some(None));
    assert_eq!(read(json!({"infrastructur": {}}), file()).0, Default::default());
    assert_eq!(read(json!({"colour": "red"}), file()).0, Default::default());
    assert_eq!(read(json!({"backend": certificate}), None).0, Default::default());
}

/// Scopes of default Gateways: a value that cannot be read costs a Gateway nothing else, and a route only what it does
/// not name.
#[test]
fn scopes_of_default_gateways() {
    let read = |kind: &str, spec: Value| {
        let metadata = json!({"name": "own", "namespace": "shop"});
        let group = "gateway.networking.k8s.io/v1";
        in_a_file(json!({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}))
    };
    let gateway = |scope: Value| {
        let spec = json!({"gatewayClassName": "holdfast", "listeners": [], "defaultScope": scope});
        let decoded = read("Gateway", spec);
        let wrong = errors(&decoded).unwrap_or_default().len();
        let Decoded::Object(object, _) = decoded else { panic!("{decoded:?}") };
        let again = crate::apis::document::document(&object).map(|document| decode(document, None));
        let Body::Gateway(gateway) = &object.body else { panic!("{object:?}") };
        match again {
            Some(Decoded::Object(again, _)) => assert_eq!(again.body, object.body, "{scope}"),
            _ => assert!(gateway.is_scope_lost, "{scope}"),
        }
        (gateway.is_default, gateway.is_scope_lost, wrong)
    };
    assert_eq!(gateway(json!("All")), (true, false, 0));
    assert_eq!(gateway(json!("None")), (false, false, 0));
    assert_eq!(gateway(json!(null)), (false, false, 0));
    for scope in [json!("all"), json!(""), json!(["All"]), json!(true)] {
        assert_eq!(gateway(scope), (false, true, 1));
    }
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        let uses = |scope: Value, parents: Value| match read(
            kind,
            json!({"useDefaultGateways": scope, "parentRefs": parents, "rules": [{"backendRefs": []}]}),
        ) {
            Decoded::Object(object, _) => {
                let written = crate::apis::document::document(&object).map(|document| decode(document, None));
                assert!(matches!(written, Some(Decoded::Object(again, _)) if again.body == object.body));
                Some(object.body.route()?.uses_default_gateways())
            }
            _ => None,
        };
        let named = json!([{"name": "public"}]);
        assert_eq!(uses(json!("All"), json!([])), Some(true), "{kind}");
        assert_eq!(uses(json!("All"), named.clone()), Some(true), "{kind}");
        assert_eq!(uses(json!("None"), json!([])), Some(false), "{kind}");
        assert_eq!(uses(json!("any"), named), Some(false), "{kind}");
        assert_eq!(uses(json!("any"), json!([])), None, "{kind}: it is unknown where the route belongs");
    }
}

#[test]
fn objects_of_unread_kinds_need_a_name() {
    let of = |metadata: Value| {
        in_a_file(json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "HTTPListenerPolicy", "metadata": metadata,
        }))
    };
    assert!(matches!(of(json!({"name": "edge", "namespace": "infra"})), Decoded::Unserved(_)));
    for metadata in [json!({}), json!({"name": 7}), json!({"name": "Not A Name"}), json!("edge"), Value::Null] {
        let decoded = of(metadata.clone());
        let is_reported = matches!(&decoded, Decoded::Nameless(why) if why.starts_with("HTTPListenerPolicy: "));
        assert!(is_reported, "{metadata}: {decoded:?}");
    }
}
