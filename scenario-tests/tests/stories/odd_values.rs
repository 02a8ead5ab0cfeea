//! Inconspicuous values that Envoy refuses, or accepts and then fails on. Each affects only its own rule: Envoy refuses
//! nothing, and the other routes are served, before and after the value is removed.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::{self, documents, http_route, listener, route, tls_secret};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "odd_values",
        true,
        [in_matches, in_filters, in_rules, in_hostnames, in_listeners, in_certificates, in_endpoints]
    )
}

/// Writes each spec as a separate route beside valid ones; then changes all of them once more.
async fn each_stays_alone(world: World, specs: &[String]) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let good = |path: &str| {
        let spec = format!(
            "rules:\n- matches: [{{path: {{type: Exact, value: {path}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
        );
        http_route("good", &spec)
    };
    for (number, spec) in specs.iter().enumerate() {
        world.route(&format!("odd{number}"), spec)?;
    }
    world.write("good.yaml", good("/good"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    nothing_is_refused(&holdfast).await?;
    // The odd routes are deleted one by one, and the valid one changes with them: a held configuration would become
    // visible.
    for number in 0..specs.len() {
        world.delete(&format!("route-odd{number}.yaml"))?;
        if number % 8 == 0 {
            world.write("good.yaml", good(&format!("/good{number}")))?;
            get(port, &format!("/good{number}")).comes_to_reach("echo").await?;
        }
    }
    nothing_is_refused(&holdfast).await?;
    let lone = specs.len();
    for (number, spec) in specs.iter().enumerate().step_by(5) {
        world.route(&format!("late{number}"), spec)?;
    }
    world.write("good.yaml", good(&format!("/good{lone}")))?;
    get(port, &format!("/good{lone}")).comes_to_reach("echo").await?;
    nothing_is_refused(&holdfast).await
}

async fn nothing_is_refused(holdfast: &Holdfast) -> Result<()> {
    let refused = holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(refused == 0.0, "Envoy refused {refused} responses");
    let output = holdfast.output();
    ensure!(!output.contains("panicked"), "{output}");
    Ok(())
}

fn with_match(number: usize, field: &str) -> String {
    let own = format!("{{name: x-odd, value: '{number}'}}");
    format!("rules:\n- matches: [{{headers: [{own}], {field}}}]\n  backendRefs: [{{name: echo, port: 8080}}]")
}

async fn in_matches(world: World) -> Result<()> {
    let paths = [
        "'/a?b'",
        "'/a#b'",
        "'/a b'",
        "'/a%zz'",
        "'/a%2fb'",
        "'//a'",
        "'/a//b'",
        "'/a/../b'",
        "'/a/.'",
        "a",
        "''",
        "'*'",
        "'/é'",
        "'/a\\b'",
        "\"/a\\nb\"",
        "\"/a\\0b\"",
        "'/%'",
    ];
    let long = format!("'/{}'", "a".repeat(5000));
    let mut matches = Vec::new();
    for kind in ["Exact", "PathPrefix"] {
        for path in paths.iter().copied().chain([long.as_str()]) {
            matches.push(format!("path: {{type: {kind}, value: {path}}}"));
        }
    }
    let expressions = [
        "'['",
        "'(a'",
        "'*'",
        "'a**'",
        "'(?=a)'",
        "'(?<n>a)'",
        "'(a)\\1'",
        "'\\p{Greek}'",
        "'(a{1000}){1000}'",
        "'((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})'",
        "''",
        "'a{2,1}'",
        "'\\C'",
        "'\\Q[\\E'",
        "'(?i)a'",
        "'[[:alpha:]]'",
        "'[[:nope:]]'",
        "\"a\\nb\"",
        "'\\xff'",
        "'\\x{110000}'",
        "'^/a$'",
        "'.*'",
        "'\\d+\\b'",
        "'(?P<n>a)(?P<n>b)'",
        "'[z-a]'",
        "'\\z'",
        "'a|'",
        "'é+'",
    ];
    for expression in expressions {
        matches.push(format!("path: {{type: RegularExpression, value: {expression}}}"));
        matches.push(format!("queryParams: [{{type: RegularExpression, name: q, value: {expression}}}]"));
    }
    for name in ["'x a'", "'x:a'", "':path'", "':authority'", "'Host'", "''", "'é'", "\"x\\na\"", "'x-ok'"] {
        matches.push(format!("queryParams: [{{name: {name}, value: v}}]"));
    }
    for value in ["'%'", "''", "\"a\\nb\"", "\"a\\0b\"", "'é'", "'%REQ(host)%'"] {
        matches.push(format!("queryParams: [{{name: q, value: {value}}}]"));
    }
    for method in ["get", "'GET '", "''", "NOPE", "PATCH"] {
        matches.push(format!("method: {method}"));
    }
    let mut specs: Vec<String> = matches.iter().enumerate().map(|(number, field)| with_match(number, field)).collect();
    for header in ["'x a'", "'x:a'", "':path'", "':authority'", "'host'", "''", "'é'", "\"x\\na\"", "'x-ok'"] {
        for value in ["v", "'%'", "\"a\\nb\"", "\"a\\0b\"", "' v '", "'é'"] {
            let of = format!(
                "rules:\n- matches: [{{path: {{type: PathPrefix, value: /h}}, headers: [{{name: {header}, value: {value}}}]}}]"
            );
            specs.push(format!("{of}\n  backendRefs: [{{name: echo, port: 8080}}]"));
        }
    }
    each_stays_alone(world, &specs).await
}

async fn in_filters(world: World) -> Result<()> {
    let mut filters = Vec::new();
    let modifiers = ["set: [{name: %, value: v}]", "add: [{name: %, value: v}]", "remove: [%]"];
    for name in [
        "'x a'",
        "':path'",
        "':scheme'",
        "':authority'",
        "Host",
        "host",
        "''",
        "'é'",
        "\"x\\na\"",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "x-ok",
    ] {
        for modifier in modifiers {
            let modifier = modifier.replace('%', name);
            filters.push(format!("{{type: RequestHeaderModifier, requestHeaderModifier: {{{modifier}}}}}"));
            filters.push(format!("{{type: ResponseHeaderModifier, responseHeaderModifier: {{{modifier}}}}}"));
        }
    }
    for value in [
        "'%'",
        "'100%'",
        "'%REQ(x'",
        "'%FOO%'",
        "'%%'",
        "'%%%'",
        "\"a\\nb\"",
        "\"a\\0b\"",
        "'é'",
        "''",
        "' v '",
        "'%START_TIME(%Y%'",
    ] {
        filters.push(format!(
            "{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x, value: {value}}}]}}}}"
        ));
        filters.push(format!(
            "{{type: ResponseHeaderModifier, responseHeaderModifier: {{add: [{{name: x, value: {value}}}]}}}}"
        ));
    }
    for path in [
        "abc",
        "'/a?b'",
        "'/a#b'",
        "'/a b'",
        "''",
        "'/\\1'",
        "'/\\0'",
        "'/a\\'",
        "\"/a\\nb\"",
        "'/%'",
        "'/é'",
        "'//'",
        "'/a/../b'",
        "'/$1'",
    ] {
        for kind in ["ReplaceFullPath, replaceFullPath", "ReplacePrefixMatch, replacePrefixMatch"] {
            filters.push(format!("{{type: URLRewrite, urlRewrite: {{path: {{type: {kind}: {path}}}}}}}"));
            filters.push(format!("{{type: RequestRedirect, requestRedirect: {{path: {{type: {kind}: {path}}}}}}}"));
        }
    }
    for host in ["'a b'", "'*.example'", "''", "'a:80'", "'é'", "\"a\\nb\"", "127.0.0.1", "'-a'", "'a..b'"] {
        filters.push(format!("{{type: URLRewrite, urlRewrite: {{hostname: {host}}}}}"));
        filters.push(format!("{{type: RequestRedirect, requestRedirect: {{hostname: {host}}}}}"));
    }
    for redirect in [
        "port: 0",
        "port: 70000",
        "port: -1",
        "scheme: ftp",
        "scheme: ''",
        "statusCode: 200",
        "statusCode: 399",
        "statusCode: 0",
    ] {
        filters.push(format!("{{type: RequestRedirect, requestRedirect: {{{redirect}}}}}"));
    }
    for mirror in [
        "percent: 101",
        "percent: -1",
        "fraction: {numerator: 2, denominator: 1}",
        "fraction: {numerator: 1, denominator: 0}",
        "fraction: {numerator: 1}",
        "percent: 1, fraction: {numerator: 1}",
    ] {
        filters.push(format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {{name: echo, port: 8080}}, {mirror}}}}}"
        ));
    }
    filters.push("{type: RequestMirror, requestMirror: {backendRef: {name: nowhere, port: 8080}}}".to_owned());
    for cors in [
        "allowOrigins: ['https://[']",
        "allowOrigins: ['https://*.*']",
        "allowOrigins: ['ftp://a']",
        "allowOrigins: ['https://a:99999']",
        "allowOrigins: ['']",
        "allowMethods: ['a b']",
        "allowHeaders: ['x a']",
        "exposeHeaders: [\"a\\nb\"]",
        "maxAge: -1",
        "maxAge: 0",
    ] {
        filters.push(format!("{{type: CORS, cors: {{{cors}}}}}"));
    }
    for filter in
        ["{type: Unknown}", "{type: URLRewrite}", "{type: RequestHeaderModifier, responseHeaderModifier: {}}", "{}"]
    {
        filters.push(filter.to_owned());
    }
    let rule = |(number, filter): (usize, &String)| {
        let backend =
            if filter.contains("RequestRedirect") { "" } else { "\n  backendRefs: [{name: echo, port: 8080}]" };
        format!(
            "rules:\n- matches: [{{path: {{type: PathPrefix, value: /odd{number}}}}}]\n  filters: [{filter}]{backend}"
        )
    };
    let mut specs: Vec<String> = filters.iter().enumerate().map(rule).collect();
    // The same filters on one backend.
    specs.extend(filters.iter().enumerate().map(|(number, filter)| {
        let path = format!("/backend{number}");
        format!("rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: echo, port: 8080, filters: [{filter}]}}]")
    }));
    each_stays_alone(world, &specs).await
}

async fn in_rules(world: World) -> Result<()> {
    let mut rules = Vec::new();
    for time in ["0s", "-5s", "1", "1h1m1s1ms", "99999h", "''", "1.5s", "1d", "99999999999999999999s", "1ns"] {
        rules.push(format!("timeouts: {{request: '{time}'}}, backendRefs: [{{name: echo, port: 8080}}]"));
        rules.push(format!("timeouts: {{backendRequest: '{time}'}}, backendRefs: [{{name: echo, port: 8080}}]"));
    }
    rules.push("timeouts: {request: 1s, backendRequest: 2s}, backendRefs: [{name: echo, port: 8080}]".to_owned());
    for backends in [
        "{name: echo, port: 8080, weight: 0}",
        "{name: echo, port: 8080, weight: -1}",
        "{name: echo, port: 8080, weight: 1000001}",
        "{name: echo, port: 8080, weight: 4294967295}, {name: echo, port: 8080, weight: 4294967295}",
        "{name: echo, port: 8080, weight: 1000000}, {name: nowhere, port: 8080, weight: 1000000}",
        "{name: echo}",
        "{name: echo, port: 0}",
        "{name: echo, port: 70000}",
        "{name: ''}",
        "{name: 'Not A Name', port: 8080}",
        "{name: echo, port: 8080, namespace: ''}",
        "{name: echo, port: 8080}, {name: echo, port: 8080}",
        "{}",
        "",
    ] {
        rules.push(format!("backendRefs: [{backends}]"));
    }
    rules.push("name: 'Not A Name', backendRefs: [{name: echo, port: 8080}]".to_owned());
    for session in [
        "sessionName: a",
        "absoluteTimeout: 99999h99999h99999h99999h, cookieConfig: {lifetimeType: Permanent}",
        "type: Header",
        "type: Header, sessionName: set-cookie",
        "sessionName: 'a b'",
    ] {
        rules.push(format!("sessionPersistence: {{{session}}}, backendRefs: [{{name: echo, port: 8080}}]"));
    }
    let rule = |(number, rule): (usize, &String)| {
        format!("rules:\n- {{matches: [{{path: {{type: PathPrefix, value: /odd{number}}}}}], {rule}}}")
    };
    let mut specs: Vec<String> = rules.iter().enumerate().map(rule).collect();
    specs.extend(
        [
            "rules: []",
            "rules: [{}, {}]",
            "rules: [{matches: []}]",
            "rules:\n- matches: [{}]\n  backendRefs: []",
            "hostnames: []",
        ]
        .map(str::to_owned),
    );
    // Combinations of the two filters that end a request or change its path, and each of them twice.
    let filters = "rules:\n- matches: [{path: {type: PathPrefix, value: /twice}}]\n  filters:\n";
    let redirect = "  - {type: RequestRedirect, requestRedirect: {port: 81}}\n";
    let rewrite = "  - {type: URLRewrite, urlRewrite: {hostname: a.example}}\n";
    for both in [[redirect, rewrite], [redirect, redirect], [rewrite, rewrite]] {
        specs.push(format!("{filters}{}  backendRefs: [{{name: echo, port: 8080}}]", both.concat()));
    }
    each_stays_alone(world, &specs).await
}

async fn in_hostnames(world: World) -> Result<()> {
    let long = format!("'{}'", "a.".repeat(200));
    let hosts = [
        "'*'",
        "'a.*.b'",
        "'*a.example'",
        "'*.'",
        "''",
        "'a b'",
        "'a:80'",
        "127.0.0.1",
        "'[::1]'",
        "'é.example'",
        "UPPER.example",
        "upper.example",
        "'a..b'",
        "'-a.example'",
        "'a.example.'",
        "\"a\\nb\"",
        "'*.*.example'",
        "'*.upper.example', '*.UPPER.example'",
        "one.example, one.example",
        &long,
    ];
    let spec = |(number, hosts): (usize, &&str)| {
        format!(
            "hostnames: [{hosts}]\nrules:\n- matches: [{{path: {{type: PathPrefix, value: /odd{number}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
        )
    };
    let specs: Vec<String> = hosts.iter().enumerate().map(spec).collect();
    each_stays_alone(world, &specs).await
}

const ALL: &str = "rules:\n- backendRefs: [{name: echo, port: 8080}]";

async fn in_listeners(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (good, shared, secure) = (world.port()?, world.port()?, world.port()?);
    let mut listeners = listener("good", good, "protocol: HTTP");
    let odd = [
        "{name: zero, port: 0, protocol: HTTP}".to_owned(),
        "{name: high, port: 70000, protocol: HTTP}".to_owned(),
        format!("{{name: tcp, port: {shared}, protocol: TCP}}"),
        format!("{{name: http, port: {shared}, protocol: HTTP}}"),
        format!("{{name: https, port: {shared}, protocol: HTTPS}}"),
        format!("{{name: same, port: {}, protocol: HTTP, hostname: a.example}}", world.port()?),
        format!("{{name: same, port: {}, protocol: HTTP, hostname: b.example}}", world.port()?),
        format!("{{name: bare, port: {secure}, protocol: HTTPS}}"),
        format!("{{name: empty, port: {secure}, protocol: HTTPS, hostname: a.example, tls: {{certificateRefs: []}}}}"),
        format!(
            "{{name: lost, port: {secure}, protocol: HTTPS, hostname: b.example, tls: {{certificateRefs: [{{name: nowhere}}]}}}}"
        ),
        format!("{{name: pass, port: {secure}, protocol: HTTPS, hostname: c.example, tls: {{mode: Passthrough}}}}"),
        format!("{{name: odd-host, port: {}, protocol: HTTP, hostname: 'a.*.b'}}", world.port()?),
        format!("{{name: no-host, port: {}, protocol: HTTP, hostname: ''}}", world.port()?),
        format!("{{name: 'Not A Name', port: {}, protocol: HTTP}}", world.port()?),
        format!("{{name: odd-protocol, port: {}, protocol: 'example.com/own'}}", world.port()?),
        format!(
            "{{name: selector, port: {}, protocol: HTTP, allowedRoutes: {{namespaces: {{from: Selector}}}}}}",
            world.port()?
        ),
        format!(
            "{{name: kinds, port: {}, protocol: HTTP, allowedRoutes: {{kinds: [{{kind: Nothing}}]}}}}",
            world.port()?
        ),
    ];
    for odd in &odd {
        listeners += &format!("- {odd}\n");
    }
    world.gateway_with(&listeners)?;
    world.route("all", ALL)?;
    let holdfast = world.run().await?;
    get(good, "/").comes_to_reach("echo").await?;
    nothing_is_refused(&holdfast).await?;
    world.gateway_with(&listener("good", good, "protocol: HTTP\nhostname: only.example"))?;
    get(good, "/").host("other.example").comes_to_answer(404).await?;
    get(good, "/").host("only.example").comes_to_reach("echo").await?;
    nothing_is_refused(&holdfast).await
}

async fn in_certificates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let (good, other) = (Certificate::of(&["good.example"])?, Certificate::of(&["other.example"])?);
    let broken = [
        ("empty", tls_secret("default", "empty", "", "")),
        ("garbage", tls_secret("default", "garbage", "garbage", "garbage")),
        ("swapped", tls_secret("default", "swapped", &other.key_pem, &other.pem)),
        ("mismatch", tls_secret("default", "mismatch", &other.pem, &good.key_pem)),
        ("cut", tls_secret("default", "cut", other.pem.get(..200).unwrap_or_default(), &other.key_pem)),
        ("cut-key", tls_secret("default", "cut-key", &other.pem, other.key_pem.get(..60).unwrap_or_default())),
        ("empty-block", tls_secret("default", "empty-block", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", &other.key_pem)),
        ("opaque", other.secret("default", "opaque").replace("kubernetes.io/tls", "Opaque")),
        ("no-data", "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: no-data, namespace: default}\n".to_owned()),
        ("no-base64", "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: no-base64, namespace: default}\ndata: {tls.crt: '%%%', tls.key: '%%%'}\n".to_owned()),
        ("chain", tls_secret("default", "chain", &format!("{}{}", other.pem, good.pem), &other.key_pem)),
        ("twice", tls_secret("default", "twice", &format!("{}{}", other.pem, other.pem), &other.key_pem)),
    ];
    let mut listeners = manifests::https_listener("good", port, "good.example", &["good"]);
    for (name, _) in &broken {
        listeners += &manifests::https_listener(name, port, &format!("{name}.example"), &[name]);
    }
    listeners += &manifests::https_listener("half", port, "half.example", &["garbage", "good"]);
    let secrets: Vec<String> =
        broken.iter().map(|(_, text)| text.clone()).chain([good.secret("default", "good")]).collect();
    world.write("secrets.yaml", documents(&secrets))?;
    world.gateway_with(&listeners)?;
    world.route("all", ALL)?;
    let holdfast = world.run().await?;
    let request = get(port, "/").host("good.example").tls(good.trust("good.example"));
    request.comes_to_reach("echo").await?;
    nothing_is_refused(&holdfast).await?;
    // The broken certificates are exchanged while the valid one is in use.
    world.write(
        "secrets.yaml",
        documents(&secrets).replace("name: mismatch", "name: spare").replace("name: cut\n", "name: mismatch\n"),
    )?;
    world.write(
        "marker.yaml",
        route(
            "HTTPRoute",
            "default",
            "marker",
            "- name: public",
            "rules:\n- matches: [{path: {type: PathPrefix, value: /marker}}]",
        ),
    )?;
    get(port, "/marker").host("good.example").tls(good.trust("good.example")).comes_to_answer(500).await?;
    request.reaches("echo").await?;
    nothing_is_refused(&holdfast).await
}

async fn in_endpoints(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let port = world.gateway()?;
    let own = echo.address().port();
    let service = |name: &str| manifests::service("default", name, None, &[]).trim_end_matches("---\n").to_owned();
    let slice = |service: &str, kind: &str, port: &str, endpoints: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {service}\n  namespace: default\n  labels: {{kubernetes.io/service-name: {service}}}\naddressType: {kind}\nports: [{port}]\nendpoints: [{endpoints}]\n"
        )
    };
    let here = "{name: http, port: PORT}".replace("PORT", &own.to_string());
    let odd = [
        ("not-ip", slice("not-ip", "IPv4", &here, "{addresses: [nonsense]}")),
        ("six", slice("six", "IPv6", &here, "{addresses: ['::1%lo', '::ffff:127.0.0.1', 'fe80::1']}")),
        ("name", slice("name", "FQDN", &here, "{addresses: [localhost]}")),
        ("unknown", slice("unknown", "IPv9", &here, "{addresses: [127.0.0.1]}")),
        ("zero", slice("zero", "IPv4", "{name: http, port: 0}", "{addresses: [127.0.0.1]}")),
        ("high", slice("high", "IPv4", "{name: http, port: 70000}", "{addresses: [127.0.0.1]}")),
        ("no-port", slice("no-port", "IPv4", "{name: http}", "{addresses: [127.0.0.1]}")),
        ("other-port", slice("other-port", "IPv4", "{name: other, port: 1}", "{addresses: [127.0.0.1]}")),
        ("udp", slice("udp", "IPv4", "{name: http, port: 1, protocol: UDP}", "{addresses: [127.0.0.1]}")),
        ("none", slice("none", "IPv4", &here, "{addresses: []}, {}")),
        ("twice", slice("twice", "IPv4", &here, "{addresses: [127.0.0.1, 127.0.0.1]}, {addresses: [127.0.0.1]}")),
        (
            "wide",
            slice(
                "wide",
                "IPv4",
                &here,
                "{addresses: ['0.0.0.0', '255.255.255.255', '224.0.0.1', '127.0.0.1/8', '127.1']}",
            ),
        ),
    ];
    for (name, text) in &odd {
        world.write(&format!("{name}.yaml"), documents(&[service(name), text.clone()]))?;
        let spec = format!(
            "rules:\n- matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]\n  backendRefs: [{{name: {name}, port: 8080}}]"
        );
        world.route(name, &spec)?;
    }
    world.write("echo.yaml", manifests::service("default", "echo", None, &[echo.address()]))?;
    world.route("good", ALL)?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    get(port, "/twice").comes_to_reach("echo").await?;
    for (name, _) in odd.iter().filter(|(name, _)| *name != "twice") {
        let reply = get(port, &format!("/{name}")).send().await?;
        ensure!(reply.status.as_u16() >= 500 || reply.pod().is_ok(), "/{name}: {reply:?}");
    }
    nothing_is_refused(&holdfast).await
}
