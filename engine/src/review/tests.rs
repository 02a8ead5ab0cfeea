//! Reviews against a running engine: the object's own faults, what goes on being served, and nothing of other objects.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;

use super::*;
use crate::testing;
use crate::testing::played::{PlayedEnvoy, settle};

const WORLD: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: holdfast, uid: c, generation: 1}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra, uid: g, generation: 1}
spec:
  gatewayClassName: holdfast
  listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: foreign, uid: f, generation: 1}
spec: {controllerName: example.com/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: foreign, namespace: infra, uid: h, generation: 1}
spec:
  gatewayClassName: foreign
  listeners: [{name: http, port: 8081, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: shop, uid: s}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: Backend
metadata: {name: broken, namespace: shop, uid: b, generation: 1}
spec: {type: Static, static: {hosts: [{host: "not a host", port: 80}]}}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: child, namespace: shop, uid: pc, generation: 1}
spec: {routes: [{conditions: [{prefix: /child}], services: [{name: echo, port: 80}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: root, namespace: shop, uid: pr, generation: 1}
spec:
  virtualhost: {fqdn: proxy.example.com}
  includes: [{name: child, conditions: [{prefix: /under}]}]
  routes: [{services: [{name: echo, port: 80}]}]
"#;

const GOOD: &str = "[{matches: [{path: {value: /a}}], backendRefs: [{name: echo, port: 80}]}]";
const BROKEN: &str =
    "[{matches: [{path: {type: RegularExpression, value: '/a['}}], backendRefs: [{name: echo, port: 80}]}]";

fn route(generation: i64, gateway: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: cart, namespace: shop, uid: r, generation: {generation}}}\n\
         spec: {{parentRefs: [{{name: {gateway}, namespace: infra}}], rules: {rules}}}\n"
    )
}

/// Certificate authorities, in the form of a Secret.
const AUTHORITY: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJVVENCK2FBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01Ca3hGekFWQmdOVkJBTU1EbU5oTG1WNFlXMXcKYkdVdVkyOXRNQjRYRFRJMk1ERXdNVEF3TURBd01Gb1hEVEkzTURFeE5UQTRNVEF3TUZvd0dURVhNQlVHQTFVRQpBd3dPWTJFdVpYaGhiWEJzWlM1amIyMHdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVEo2eUh0CnNPUWV0N3ozcVB1bjBPc1g2WFBXVEVQWFgrWFpBcmtuMVJ4ZWljd3JXVk5VSVM3N2JZb1VITXNEaXVBemxtbG8KenpBWlAwTk5BMlUrUm1qTG96SXdNREFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQjBHQTFVZERnUVdCQlFMeHQrNQpVZkQ2THVRVGJldEJHa2RabzJlQUtUQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQVc4RXpJVWkxdXZwbUZYWmNqCjVQVnJrR0pwTlBka2hPci9WNkUzaENZVzl3SWdhUG95YkJ3YXpPek95dWMwZmdqcFVDdUpEOUo3OXV3T0lnZU4KT3k0V3dMRT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

const TLS_OF_ECHO: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: tls, namespace: shop, uid: q, generation: 1}, \
                           spec: {targetRefs: [{group: '', kind: Service, name: echo}], validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: broken}], hostname: shop.example.com}}}";

fn settings(fallback: bool) -> Settings {
    let mut settings = Settings::standalone();
    settings.fallback.isolate = fallback;
    settings.fallback.use_last_valid = fallback;
    settings
}

/// Starts an engine with an Envoy that has accepted these objects.
fn running(further: &str, settings: Settings) -> Engine {
    let mut engine = Engine::new(settings);
    let mut envoys = [PlayedEnvoy::new("infra/public", "one"), PlayedEnvoy::new("holdfast/httpproxy", "two")];
    let connected = envoys.iter().map(|envoy| Event::Connected(envoy.id.clone(), false)).collect();
    let clock = vec![Event::Clock(1_700_000_000_000)];
    let mut actions = engine.handle(clock);
    actions.extend(engine.handle(testing::events(&format!("{WORLD}---\n{further}"))));
    actions.extend(engine.handle(connected));
    settle(&mut engine, &mut envoys, actions);
    engine
}

fn review(engine: &Engine, object: &str) -> Review {
    let document = testing::documents(object).remove(0);
    let reviewed = Reviewed::read(document).unwrap();
    super::review(basis(engine, &reviewed).unwrap(), &reviewed).unwrap()
}

/// The faults of a review, with their classes.
fn faults(review: &Review) -> Vec<(String, Class)> {
    review.faults.iter().map(|fault| (fault.field.clone(), fault.class)).collect()
}

#[test]
fn the_earlier_generation_goes_on_being_served() {
    let engine = running(&route(4, "public", GOOD), settings(true));
    let before = testing::served(&engine);
    let found = review(&engine, &route(5, "public", BROKEN));
    assert_eq!(faults(&found), [("spec.rules[0].matches[0].path.value".to_owned(), Class::Invalid)]);
    assert_eq!(found.owner, ReviewOwner::Ours);
    let key = engine.objects().iter().find(|object| &*object.key.kind == "HTTPRoute").unwrap().key.clone();
    assert_eq!(
        found.served,
        [ReviewEffect { object: key, section: "".into(), field: String::new(), kind: EffectKind::Earlier(4) }]
    );
    assert_eq!(testing::served(&engine), before);
    assert!(engine.faults().iter().all(|fault| &*fault.object.kind != "HTTPRoute"));
    assert_eq!(review(&engine, &route(5, "public", GOOD)), Review { owner: ReviewOwner::Ours, ..Review::default() });
}

#[test]
fn without_an_earlier_generation_the_response_is_named() {
    for engine in [running("", settings(true)), running(&route(4, "public", GOOD), settings(false))] {
        let found = review(&engine, &route(5, "public", BROKEN));
        assert!(
            matches!(&*found.served, [ReviewEffect { field, kind: EffectKind::Response(404), .. }] if field == "spec.rules[0]"),
            "{found:?}"
        );
    }
}

/// The review of a full engine that has applied the object.
#[test]
fn the_answer_is_that_of_the_engine_after_the_edit() {
    for (further, edit) in [
        (route(1, "public", GOOD), route(2, "public", BROKEN)),
        (String::new(), route(1, "public", BROKEN)),
        (route(1, "public", GOOD), route(2, "public", "[{backendRefs: [{name: absent, port: 80}]}]")),
        (
            String::new(),
            proxy("child", 2, "routes: [{conditions: [{prefix: /c}], services: [{name: echo, port: 80, weight: -1}]}]"),
        ),
        (
            String::new(),
            proxy("child", 2, "routes: [{conditions: [{prefix: nope}], services: [{name: echo, port: 80}]}]"),
        ),
        (route(1, "public", GOOD), policy("rateLimit: {local: {tokenBucket: {maxTokens: 0, fillInterval: 1s}}}")),
    ] {
        let mut engine = running(&further, settings(true));
        let found = review(&engine, &edit);
        let key = Reviewed::read(testing::documents(&edit).remove(0)).unwrap().key;
        engine.handle(testing::events(&edit));
        let expected: Vec<Fault> =
            engine.faults().into_iter().filter(|fault| fault.object == key && fault.cause.is_none()).collect();
        assert_eq!(found.faults, expected, "{edit}");
        assert_eq!(found.served, served::served(&engine, &engine.fallback(), &key), "{edit}");
        assert!(!found.faults.is_empty(), "{edit}");
    }
}

fn proxy(name: &str, generation: i64, spec: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: shop, uid: pc, generation: {generation}}}\n\
         spec: {{{spec}}}\n"
    )
}

/// The fields of a root HTTPProxy that validates the certificates of clients in this way.
fn tls_of(validation: &str) -> String {
    format!(
        "routes: [{{services: [{{name: echo, port: 80}}]}}], \
         virtualhost: {{fqdn: proxy.example.com, tls: {{secretName: broken, clientValidation: {{{validation}}}}}}}"
    )
}

fn backend_config(spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\nmetadata: {{name: config, namespace: shop, uid: bc, generation: 1}}\n\
         spec:\n  targetRefs: [{{group: '', kind: Service, name: echo}}]\n  {spec}\n"
    )
}

fn extension(spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\nmetadata: {{name: auth, namespace: shop, uid: x, generation: 1}}\n\
         spec: {{{spec}}}\n"
    )
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: limit, namespace: shop, uid: p, generation: 1}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}}]\n  {spec}\n"
    )
}

#[test]
fn faults_of_others_are_not_mentioned() {
    let engine = running("", settings(true));
    let to_broken = "[{backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: broken}]}]";
    assert!(engine.faults().iter().any(|fault| &*fault.object.kind == "Backend"), "{:?}", engine.faults());
    let found = review(&engine, &route(1, "public", to_broken));
    assert_eq!(found.faults, [], "{found:?}");
}

#[test]
fn missing_objects_are_no_faults_of_content() {
    let engine = running("", settings(true));
    let missing = [
        route(1, "public", "[{backendRefs: [{name: absent, port: 80}]}]"),
        route(1, "public", "[{backendRefs: [{name: echo, namespace: other, port: 80}]}]"),
        route(1, "public", "[{backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: absent}]}]"),
        route(1, "public", "[{filters: [{type: ExtensionRef, extensionRef: {group: gateway.kgateway.dev, kind: DirectResponse, name: absent}}]}]"),
        route(1, "absent", GOOD),
        policy("rateLimit: {local: {tokenBucket: {maxTokens: 1, fillInterval: 1s}}}"),
        policy("extAuth: {extensionRef: {name: absent}}"),
        proxy("child", 2, "includes: [{name: absent}]"),
        proxy("child", 2, "routes: [{services: [{name: absent, port: 80}]}]"),
        proxy("root", 2, "virtualhost: {fqdn: proxy.example.com, tls: {secretName: absent}}, routes: [{services: [{name: echo, port: 80}]}]"),
        "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: new, namespace: shop, uid: new, generation: 1}, \
         spec: {gatewayClassName: holdfast, listeners: [{name: https, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: absent}]}}]}}"
            .to_owned(),
        "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: new, namespace: shop, uid: new, generation: 1}, \
         spec: {gatewayClassName: absent, listeners: [{name: http, port: 8080, protocol: HTTP}]}}"
            .to_owned(),
    ];
    for object in missing {
        let found = review(&engine, &object);
        let invalid: Vec<_> = found.faults.iter().filter(|fault| fault.class == Class::Invalid).collect();
        assert!(invalid.is_empty(), "{object}: {invalid:?}");
        assert!(!found.faults.is_empty(), "{object}");
    }
}

/// The owner of a Secret or ConfigMap repairs its content; the object that uses it can be stored meanwhile.
#[test]
fn content_of_secrets_and_config_maps_is_no_fault_of_content_of_their_users() {
    let broken = "{apiVersion: v1, kind: Secret, metadata: {name: broken, namespace: shop, uid: t1}, type: kubernetes.io/tls, data: {tls.crt: bm8=, tls.key: bm8=, ca.crt: bm8=, client-secret: YQpi, .htaccess: Og==}}\n\
                  ---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: broken, namespace: shop, uid: t2}, data: {ca.crt: none}}";
    let using = policy("extAuth: {extensionRef: {name: auth}}");
    let good = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: good, namespace: shop, uid: t3}}, data: {{client-secret: Z29vZA==, ca.crt: {AUTHORITY}}}}}"
    );
    let gateway = |listener: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: new, namespace: shop, uid: new, generation: 1}}, \
             spec: {{gatewayClassName: holdfast, listeners: [{{name: https, port: 8443, protocol: HTTPS, {listener}}}]}}}}"
        )
    };
    let tls = "routes: [{services: [{name: echo, port: 80}]}], virtualhost: {fqdn: proxy.example.com, tls: {secretName: broken}}";
    let engine =
        running(&format!("{}---\n{broken}\n---\n{good}\n---\n{using}", route(1, "public", GOOD)), settings(true));
    for object in [
        gateway("tls: {certificateRefs: [{name: broken}]}"),
        TLS_OF_ECHO.to_owned(),
        policy("basicAuth: {secretRef: {name: broken}}"),
        backend_config("tls: {secretRef: {name: broken}}"),
        proxy("root", 2, &tls_of("caSecret: broken")),
        proxy("root", 2, &tls_of("caSecret: good, crlSecret: broken")),
        proxy("root", 2, tls),
        proxy(
            "root",
            2,
            "virtualhost: {fqdn: proxy.example.com}, routes: [{services: [{name: echo, port: 80, protocol: tls, validation: {caSecret: broken, subjectName: a}}]}]",
        ),
    ] {
        let found = review(&engine, &object);
        assert!(!found.faults.is_empty() || !found.served.is_empty(), "{object}: {found:?}");
        assert!(found.faults.iter().all(|fault| fault.class != Class::Invalid), "{object}: {:?}", found.faults);
    }
    // A fault of its own beside it is one of content.
    for (object, field) in [
        (gateway("hostname: '*bad', tls: {certificateRefs: [{name: broken}]}"), "hostname"),
        (policy("basicAuth: {secretRef: {name: broken}}\n  csrf: {percentageEnabled: 200}"), "csrf"),
        (proxy("root", 2, &tls.replace("port: 80", "port: 80, weight: -1")), "routes[0]"),
        (proxy("root", 2, &tls.replace("port: 80", "port: 80, protocol: gopher")), "routes[0]"),
        (proxy("root", 2, &tls.replace("port: 80", "port: 80, healthPort: 70000")), "routes[0]"),
        (
            proxy(
                "root",
                2,
                &tls.replace(
                    "port: 80",
                    "port: 80, protocol: tls, validation: {caSecret: good, subjectName: a, subjectNames: [b]}",
                ),
            ),
            "routes[0]",
        ),
        (backend_config("tls: {secretRef: {name: good}, sni: 'bad host!'}"), "tls"),
        (backend_config("tls: {secretRef: {name: good}, parameters: {minVersion: '9'}}"), "tls"),
        (
            extension(
                "type: ExtAuth, extAuth: {grpcService: {backendRef: {name: echo, port: 80}}, withRequestBody: {maxRequestBytes: -5}}",
            ),
            "extAuth",
        ),
    ] {
        let found = review(&engine, &object);
        let invalid = |fault: &&Fault| fault.class == Class::Invalid;
        let own: Vec<_> = found.faults.iter().filter(invalid).map(|fault| fault.field.clone()).collect();
        assert!(own.iter().any(|own| own.contains(field)), "{object}: {:?}", found.faults);
    }
}

#[test]
fn a_policy_of_a_backend_that_is_named_for_the_first_time_applies() {
    let secure = "{apiVersion: v1, kind: Service, metadata: {name: secure, namespace: shop, uid: t}, spec: {ports: [{port: 443, appProtocol: https}]}}";
    let policy = "{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: tls, namespace: shop, uid: q, generation: 1}, \
                  spec: {targetRefs: [{group: '', kind: Service, name: secure}], validation: {wellKnownCACertificates: System, hostname: shop.example.com}}}";
    let to_secure = route(1, "public", "[{backendRefs: [{name: secure, port: 443}]}]");
    let without = review(&running(secure, settings(true)), &to_secure);
    assert!(without.faults.iter().any(|fault| fault.message.contains("BackendTLSPolicy")), "{without:?}");
    let with = review(&running(&format!("{secure}\n---\n{policy}"), settings(true)), &to_secure);
    assert_eq!((with.faults, with.served), (Vec::new(), Vec::new()));
}

/// The routes to which an object applies only through others, or only from now on.
#[test]
fn what_clients_of_affected_routes_get_is_named() {
    let labelled = route(1, "public", GOOD).replace("uid: r", "uid: r, labels: {app: cart}");
    let using = policy("extAuth: {extensionRef: {name: auth}}");
    let extension = |host: &str| {
        format!(
            "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayExtension, metadata: {{name: auth, namespace: shop, uid: x, generation: 1}}, \
             spec: {{type: ExtAuth, extAuth: {{grpcService: {{backendRef: {{name: echo, port: 80}}, requestTimeout: {host}}}}}}}}}"
        )
    };
    let to_backend = route(1, "public", "[{backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: b}]}]");
    let backend = |host: &str| {
        format!(
            "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {{name: b, namespace: shop, uid: b2, generation: 1}}, \
             spec: {{type: Static, static: {{hosts: [{{host: {host}, port: 80}}]}}}}}}"
        )
    };
    let selecting = policy("csrf: {percentageEnabled: 200}")
        .replace("targetRefs", "targetSelectors")
        .replace("name: cart", "matchLabels: {app: cart}");
    for (further, edit) in [
        (labelled, selecting),
        (format!("{}---\n{using}---\n{}", route(1, "public", GOOD), extension("1s")), extension("soon")),
        (format!("{to_backend}---\n{}", backend("10.1.1.1")), backend("not a host")),
        (route(1, "public", GOOD), TLS_OF_ECHO.to_owned()),
    ] {
        let found = review(&running(&further, settings(false)), &edit);
        let is_affected = |it: &&ReviewEffect| &*it.object.kind == "HTTPRoute";
        let affected: Vec<_> = found.served.iter().filter(is_affected).map(|it| it.kind).collect();
        assert!(matches!(affected[..], [EffectKind::Response(_)]), "{edit}: {found:?}");
        assert!(!found.faults.is_empty() && found.owner == ReviewOwner::Ours, "{edit}: {found:?}");
    }
}

#[test]
fn the_owner_of_an_object_is_found() {
    let engine = running("", settings(true));
    for (gateway, owner) in
        [("foreign", ReviewOwner::Other), ("absent", ReviewOwner::Unknown), ("public", ReviewOwner::Ours)]
    {
        assert_eq!(review(&engine, &route(1, gateway, BROKEN)).owner, owner, "{gateway}");
    }
    let limit = policy("rateLimit: {local: {tokenBucket: {maxTokens: 1, fillInterval: 1s}}}");
    assert_eq!(review(&engine, &limit).owner, ReviewOwner::Unknown, "its target does not exist");
    for (gateway, owner) in [("public", ReviewOwner::Ours), ("foreign", ReviewOwner::Other)] {
        let engine = running(&route(1, gateway, GOOD), settings(true));
        assert_eq!(review(&engine, &limit).owner, owner, "{gateway}");
    }
    let gateway = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: foreign, namespace: infra, uid: h, generation: 2}, \
                   spec: {gatewayClassName: foreign, listeners: [{name: http, port: 8081, protocol: HTTP, hostname: '*bad'}]}}";
    assert_eq!(review(&engine, gateway).owner, ReviewOwner::Other);
    // A class that does not exist is that of another controller, or of none.
    let absent = gateway.replace("gatewayClassName: foreign", "gatewayClassName: absent");
    assert_eq!(review(&engine, &absent).owner, ReviewOwner::Other);
}

#[test]
fn content_that_an_envoy_refused_is_known() {
    let refused = route(2, "public", "[{matches: [{path: {value: /refused}}], backendRefs: [{name: echo, port: 80}]}]");
    let mut engine = running(&route(1, "public", GOOD), settings(true));
    let mut envoys = [PlayedEnvoy::new("infra/public", "one").refusing("/refused", "no such field")];
    let actions = engine.handle(testing::events(&refused));
    settle(&mut engine, &mut envoys, actions);
    assert!(!engine.fallback().broken_objects.is_empty());
    let actions = engine.handle(testing::events(&route(3, "public", GOOD)));
    settle(&mut engine, &mut envoys, actions);
    let found = review(&engine, &refused.replace("generation: 2", "generation: 4"));
    assert!(found.refused.as_ref().is_some_and(|why| why.contains("no such field")), "{found:?}");
    assert!(review(&engine, &route(4, "public", GOOD)).refused.is_none());
}

#[test]
fn an_object_with_too_many_dependencies_is_not_reviewed() {
    let root = |number| {
        let spec = format!("virtualhost: {{fqdn: r{number}.example.com}}, includes: [{{name: child}}]");
        proxy(&format!("r{number}"), 1, &spec)
    };
    let roots: Vec<String> = (0..RELATED_OBJECTS_MAX).map(root).collect();
    let mut engine = Engine::new(settings(true));
    engine.handle(testing::events(&format!("{WORLD}---\n{}", roots.join("---\n"))));
    let child = proxy("child", 2, "routes: []");
    let reviewed = Reviewed::read(testing::documents(&child).remove(0)).unwrap();
    assert_eq!(basis(&engine, &reviewed).err(), Some(NotReviewed::TooManyRelated));
    let other = proxy("other", 2, "virtualhost: {fqdn: r1.example.com}, includes: [{name: child}]");
    let reviewed = Reviewed::read(testing::documents(&other).remove(0)).unwrap();
    assert!(basis(&engine, &reviewed).is_ok());
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod"});
    assert!(matches!(Reviewed::read(pod), Err(NotReviewed::Unknown(_))));
}
