//! ListenerPolicies: connection settings take effect, guards apply to existing connections too, and an unusable policy
//! closes its target and nothing else.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Recorded;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{https_listener, listener, service};
use holdfast_scenario_tests::request::{HttpRequest, request};
use holdfast_scenario_tests::services::logs::{AccessLogEntry, LogServer};
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::connections",
        true,
        [
            clients_show_certificates,
            older_connections_are_guarded_too,
            client_address_by_proxy_protocol,
            requests_are_written_down_and_traced,
            requests_are_logged_to_a_service,
            answers_and_limits,
            client_address_by_forwarded_header,
            closed_by_what_translation_finds,
            closed_by_what_envoy_finds,
            what_only_observes_closes_nothing,
            closed_before_an_envoy_that_serves_finds_it,
        ]
    )
}

const ROUTE: &str = "rules:\n- backendRefs: [{name: echo, port: 8080}]";
const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: public}";

fn at(section: &str) -> String {
    format!("{{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: {section}}}")
}

/// Writes a ListenerPolicy; `default` has its settings for every port.
fn set(world: &World, name: &str, target: &str, default: &str) -> Result<()> {
    world.write(
        &format!("policy-{name}.yaml"),
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: ListenerPolicy\nmetadata: {{name: {name}, namespace: \
             default}}\nspec:\n  targetRefs: [{target}]\n  default: {{{default}}}\n"
        ),
    )
}

fn http(world: &World, target: &str, settings: &str) -> Result<()> {
    set(world, "p", target, &format!("httpSettings: {{{settings}}}"))
}

fn authorities(kind: &str, name: &str, authority: &StoryAuthority) -> String {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let text = serde_json::Value::from(&*authority.pem);
    format!(
        "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: default}}\n{field}: {{ca.crt: {text}}}\n"
    )
}

fn validation(mode: &str, kind: &str, name: &str) -> String {
    format!(
        "clientCertificateValidation: {{mode: {mode}, caCertificateRefs: [{{group: \"\", kind: {kind}, name: {name}}}]}}"
    )
}

/// Sends bytes as they are, and reads until the server closes the connection.
async fn raw(port: u16, bytes: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(bytes.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn comes_raw(port: u16, bytes: &str, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
    let wanted = &wanted;
    until(what, || async move {
        let answer = raw(port, bytes).await.unwrap_or_default();
        ensure!(wanted(&answer), "the answer was {answer:?}");
        Ok(answer)
    })
    .await
}

/// The TLS port and its certificate.
struct TlsPort {
    certificate: Certificate,
    port: u16,
}

impl TlsPort {
    fn request(&self, host: &str, shown: Option<&Certificate>) -> HttpRequest {
        let host = format!("{host}.example.com");
        let trust = self.certificate.trust(&host);
        let trust = if let Some(shown) = shown { trust.showing(shown) } else { trust };
        request(self.port).host(&host).tls(trust)
    }

    async fn comes_to_refuse(&self, host: &str, shown: Option<&Certificate>) -> Result<()> {
        until("connections are refused", || async {
            let answer = self.request(host, shown).send().await;
            ensure!(answer.is_err(), "it is answered: {answer:?}");
            Ok(())
        })
        .await
    }
}

/// Returns two hosts with TLS on one port, and a port without.
async fn doors(world: &World) -> Result<(TlsPort, u16)> {
    let certificate = Certificate::of(&["*.example.com"])?;
    let (tls, plain) = (world.port()?, world.port()?);
    world.write("certificate.yaml", certificate.secret("default", "certificate"))?;
    world.gateway_with(&format!(
        "{}{}{}",
        https_listener("strict", tls, "strict.example.com", &["certificate"]),
        https_listener("free", tls, "free.example.com", &["certificate"]),
        listener("plain", plain, "protocol: HTTP"),
    ))?;
    world.route("r", ROUTE)?;
    Ok((TlsPort { certificate, port: tls }, plain))
}

async fn clients_show_certificates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (door, plain) = doors(&world).await?;
    let (ours, others) = (StoryAuthority::new("ours")?, StoryAuthority::new("others")?);
    let (known, untrusted) = (ours.client("known", 1)?, others.client("untrusted", 1)?);
    world.write("ours.yaml", authorities("Secret", "ours", &ours))?;
    world.write("others.yaml", authorities("ConfigMap", "others", &others))?;
    let required = validation("Require", "Secret", "ours");
    set(&world, "p", &at("strict"), &required)?;
    let _holdfast = world.run().await?;
    door.request("strict", Some(&known)).comes_to_reach("echo").await?;
    door.request("strict", Some(&known)).http2().reaches("echo").await?;
    let neighbours = Hammer::start([door.request("free", None), request(plain)]);
    let intruders = Hammer::start([door.request("strict", None), door.request("strict", Some(&untrusted))]);
    door.comes_to_refuse("strict", None).await?;
    door.comes_to_refuse("strict", Some(&untrusted)).await?;
    // Nor over a connection to the host that requires no certificate.
    let mut connection = door.request("free", None).connect().await?;
    let around = door.request("strict", None).send_on(&mut connection).await?;
    ensure!(around.status == 421, "{}", around.status);
    // Each unusable policy closes the host, and a correction opens it.
    let wrong = [
        validation("Require", "Secret", "nobody"),
        validation("Perhaps", "Secret", "ours"),
        validation("Require", "Service", "echo"),
        format!("{required}, tcpKeepalive: {{keepAliveTime: 1ms}}"),
    ];
    for wrong in wrong {
        set(&world, "p", &at("strict"), &wrong)?;
        door.request("strict", Some(&known)).comes_to_answer(500).await?;
        set(&world, "p", &at("strict"), &required)?;
        door.request("strict", Some(&known)).comes_to_reach("echo").await?;
    }
    // Unusable CA certificates.
    world.write("ours.yaml", authorities("Secret", "ours", &ours).replace("BEGIN", "BEGAN"))?;
    door.request("strict", Some(&known)).comes_to_answer(500).await?;
    world.write("ours.yaml", authorities("Secret", "ours", &ours))?;
    door.request("strict", Some(&known)).comes_to_reach("echo").await?;
    intruders.goes_on(20).await?;
    intruders.stop_expecting(|shot| !shot.is_ok()).await?;
    neighbours.stop_expecting(Shot::is_ok).await?;
    // Now clients of another authority are allowed, and the earlier ones no longer.
    set(&world, "p", &at("strict"), &validation("Require", "ConfigMap", "others"))?;
    door.request("strict", Some(&untrusted)).comes_to_reach("echo").await?;
    door.comes_to_refuse("strict", Some(&known)).await?;
    // A client without a certificate is allowed as well, but not a client with a wrong one; backends receive the
    // subject.
    let details = "httpSettings: {forwardClientCertDetails: {details: {subject: true}}}";
    set(&world, "p", &at("strict"), &format!("{}, {details}", validation("Optional", "ConfigMap", "others")))?;
    door.request("strict", None).comes_to_reach("echo").await?;
    door.comes_to_refuse("strict", Some(&known)).await?;
    let header = "x-forwarded-client-cert";
    let seen =
        door.request("strict", Some(&untrusted)).header(header, "forged").comes_to_reach("echo").await?.echo()?;
    ensure!(seen.header(header).join(",").contains("CN=untrusted"), "{:?}", seen.header(header));
    ensure!(!seen.header(header).join(",").contains("forged"), "{:?}", seen.header(header));
    // For the whole Gateway: listeners without TLS cannot require a certificate and are closed.
    set(&world, "p", GATEWAY, &validation("Require", "ConfigMap", "others"))?;
    door.comes_to_refuse("free", None).await?;
    door.request("free", Some(&untrusted)).comes_to_reach("echo").await?;
    request(plain).comes_to_answer(500).await?;
    world.delete("policy-p.yaml")?;
    request(plain).comes_to_reach("echo").await?;
    door.request("strict", None).comes_to_reach("echo").await?;
    Ok(())
}

/// A connection from before a guard receives one response, not from a backend, and is then closed.
async fn older_connections_are_guarded_too(world: World) -> Result<()> {
    let echo = world.backend("echo").await?;
    let (door, plain) = doors(&world).await?;
    let ours = StoryAuthority::new("ours")?;
    let known = ours.client("known", 1)?;
    world.write("ours.yaml", authorities("Secret", "ours", &ours))?;
    let _holdfast = world.run().await?;
    door.request("strict", None).comes_to_reach("echo").await?;
    let mut older = door.request("strict", None).connect().await?;
    let mut older_http2 = door.request("strict", None).http2().connect().await?;
    let mut free = door.request("free", None).connect().await?;
    door.request("strict", None).send_on(&mut older).await?.from_pod("echo")?;
    door.request("strict", None).send_on(&mut older_http2).await?.from_pod("echo")?;
    door.request("free", None).send_on(&mut free).await?.from_pod("echo")?;
    set(&world, "p", &at("strict"), &validation("Require", "Secret", "ours"))?;
    door.comes_to_refuse("strict", None).await?;
    door.request("strict", Some(&known)).comes_to_reach("echo").await?;
    let before = echo.received();
    for connection in [&mut older, &mut older_http2] {
        let answer = door.request("strict", None).send_on(connection).await?;
        ensure!(answer.status == 403, "{answer:?}");
    }
    ensure!(door.request("strict", None).send_on(&mut older).await.is_err(), "the connection is still open");
    ensure!(echo.received() == before, "the backend was reached");
    // The chain of the other host is not drained.
    door.request("free", None).send_on(&mut free).await?.from_pod("echo")?;
    // Likewise for a policy that removes headers that clients must not set.
    let forged = request(plain).header("x-user", "admin");
    let mut older = forged.connect().await?;
    let seen = forged.send_on(&mut older).await?.echo()?;
    ensure!(seen.header("x-user") == ["admin"], "{:?}", seen.header("x-user"));
    set(&world, "q", &at("plain"), "httpSettings: {earlyRequestHeaderModifier: {remove: [x-user]}}")?;
    forged
        .comes_to("the header is taken away", |reply| {
            reply.status == 200 && reply.echo().is_ok_and(|seen| seen.header("x-user").is_empty())
        })
        .await?;
    let answer = forged.send_on(&mut older).await?;
    ensure!(answer.status == 403, "{answer:?}");
    Ok(())
}

async fn client_address_by_proxy_protocol(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, "p", GATEWAY, "proxyProtocol: {}")?;
    world.write(
        "acl.yaml",
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: acl, namespace: default}\n\
         spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]\n  \
         acl: {defaultAction: deny, rules: [{cidrs: [192.0.2.7], action: allow}]}\n",
    )?;
    let _holdfast = world.run().await?;
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let from = |address: &str| format!("PROXY TCP4 {address} 127.0.0.1 1000 80\r\n{request}");
    let line = |status: &'static str| move |answer: &str| answer.starts_with(&format!("HTTP/1.1 {status}"));
    comes_raw(port, &from("192.0.2.7"), "the client is let in", line("200")).await?;
    comes_raw(port, &from("192.0.2.8"), "another is not", line("403")).await?;
    // Without the PROXY protocol the connection is closed, unless this is allowed.
    let answer = raw(port, request).await.unwrap_or_default();
    ensure!(answer.is_empty(), "{answer:?}");
    set(&world, "p", GATEWAY, "proxyProtocol: {allowRequestsWithoutProxyProtocol: true}")?;
    comes_raw(port, request, "it is answered as who connects", line("403")).await?;
    comes_raw(port, &from("192.0.2.7"), "the client is let in", line("200")).await?;
    Ok(())
}

async fn requests_are_written_down_and_traced(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let collector = world.backend_in("default", "collector", Some("kubernetes.io/h2c")).await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let file = "{fileSink: {path: /dev/stdout, stringFormat: \"written %REQ(:path)% %RESPONSE_CODE% by text\\n\"}, \
                filter: {andFilter: [{statusCodeFilter: {op: GE, value: 200}}, {celFilter: {match: \
                'request.path.startsWith(\"/log\")'}}]}}";
    let json = "{fileSink: {path: /dev/stdout, jsonFormat: {written: \"%REQ(:path)%\", by: json}}, filter: {headerFilter: \
                {header: {name: x-json, type: RegularExpression, value: \"y.*\"}}}}";
    let service = "backendRef: {name: collector, port: 8080}";
    let otel = format!("{{openTelemetry: {{grpcService: {{logName: log, {service}}}, body: \"%REQ(:path)%\"}}}}");
    let als = format!("{{grpcService: {{logName: als, {service}}}}}");
    let tracing =
        format!("tracing: {{randomSampling: 100, provider: {{openTelemetry: {{grpcService: {{{service}}}}}}}}}");
    http(&world, GATEWAY, &format!("accessLog: [{file}, {json}, {otel}, {als}], {tracing}"))?;
    // Envoy's output is passed on to the log.
    let options = HoldfastOptions::new(&world)?.args(&["--log-level", "info,envoy=debug"]);
    let holdfast = world.run_with(options).await?;
    request(port).path("/logged/a").comes_to_reach("echo").await?;
    request(port).path("/other").header("x-json", "yes").reaches("echo").await?;
    holdfast.comes_to_print(&["written /logged/a 200 by text", "\"written\":\"/other\""]).await?;
    ensure!(!holdfast.output().contains("written /other"), "a filter does not hold");
    for method in [
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    ] {
        until(&format!("{method} is called"), || async {
            request(port).path("/logged/b").reaches("echo").await?;
            let called = |recorded: &Recorded| recorded.grpc && recorded.request.path == method;
            ensure!(collector.count(called) > 0, "it was asked {} times", collector.received());
            Ok(())
        })
        .await?;
    }
    // A collector that is gone does not affect requests.
    let load = Hammer::start([request(port).path("/logged/c")]);
    world.delete("service-default-collector.yaml")?;
    until("the policy tells", || async {
        let faults = holdfast.diagnostics("/debug/faults").await?.to_string();
        ensure!(faults.contains("the collector receives no data"), "{faults}");
        Ok(())
    })
    .await?;
    load.goes_on(20).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Access logs over gRPC: only the requests that match the filter, with the requested headers; an edit takes effect,
/// and an unavailable service does not affect requests.
async fn requests_are_logged_to_a_service(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let logs = LogServer::start().await?;
    world.write("logs.yaml", service("default", "logs", Some("kubernetes.io/h2c"), &[logs.address()]))?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let log = |name: &str| {
        let to =
            format!("logName: {name}, backendRef: {{name: logs, port: 8080}}, additionalRequestHeadersToLog: [x-team]");
        let filter = "{headerFilter: {header: {name: x-logged, value: \"yes\"}}}";
        http(&world, GATEWAY, &format!("accessLog: [{{grpcService: {{{to}}}, filter: {filter}}}]"))
    };
    log("first")?;
    let _holdfast = world.run().await?;
    let logged = |path: &str| request(port).path(path).header("x-logged", "yes").header("x-team", "blue");
    logged("/a").comes_to_reach("echo").await?;
    request(port).path("/silent").reaches("echo").await?;
    for name in ["first", "second"] {
        log(name)?;
        let wanted = AccessLogEntry {
            log: name.to_owned(),
            path: format!("/{name}"),
            status: 200,
            headers: vec![("x-team".to_owned(), "blue".to_owned())],
        };
        until("the request is told", || async {
            logged(&wanted.path).reaches("echo").await?;
            ensure!(logs.lines().contains(&wanted), "{:?}", logs.lines());
            Ok(())
        })
        .await?;
    }
    ensure!(logs.lines().iter().all(|line| line.path != "/silent"), "{:?}", logs.lines());
    drop(logs);
    for _ in 0..20 {
        logged("/away").reaches("echo").await?;
    }
    Ok(())
}

async fn answers_and_limits(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", "rules:\n- matches: [{path: {value: /echo}}]\n  backendRefs: [{name: echo, port: 8080}]")?;
    http(&world, GATEWAY, "serverName: shop")?;
    let _holdfast = world.run().await?;
    let echo = request(port).path("/echo");
    echo.comes_to("the server has a name", |reply| reply.header("server") == "shop").await?;
    http(&world, GATEWAY, "healthCheck: {path: /healthz}")?;
    request(port).path("/healthz").comes_to_answer(200).await?;
    request(port).path("/healthz/a").answers(404).await?;
    http(&world, GATEWAY, "maxHeadersCount: 5")?;
    let many = (0..8).fold(echo.clone(), |request, number| request.header(&format!("x-{number}"), "a"));
    many.comes_to_answer(431).await?;
    echo.reaches("echo").await?;
    http(&world, GATEWAY, "maxRequestHeadersKb: 1")?;
    echo.clone().header("x-large", &"a".repeat(2000)).comes_to_answer(431).await?;
    let replies = "localReplies: {mappers: [{filter: {statusCodeFilter: {op: EQ, value: 404}}, statusCode: 410, \
                   bodyFormatOverride: {json: {gone: \"%REQ(:path)%\", code: \"%RESPONSE_CODE%\"}}, \
                   headers: {set: [{name: x-reply, value: mapped}]}}]}";
    http(&world, GATEWAY, replies)?;
    let gone = request(port).path("/nothing").comes_to_answer(410).await?;
    ensure!(gone.header("x-reply") == "mapped", "{gone:?}");
    let body: serde_json::Value = serde_json::from_str(&gone.body)?;
    ensure!(body["gone"] == "/nothing", "{body}");
    // HTTP/1.0, and a host for requests without one.
    let old = "GET /echo HTTP/1.0\r\n\r\n";
    let refused = raw(port, old).await?;
    ensure!(refused.contains("426"), "{refused:?}");
    http(&world, GATEWAY, "acceptHttp10: true, defaultHostForHttp10: old.example.com")?;
    let answer = comes_raw(port, old, "HTTP/1.0 is taken", |answer| answer.contains(" 200 OK")).await?;
    ensure!(answer.contains("old.example.com"), "{answer}");
    http(&world, GATEWAY, "maxRequestsPerConnection: 2")?;
    until("the connection ends with its second answer", || async {
        let mut connection = echo.connect().await?;
        let first = echo.send_on(&mut connection).await?;
        let second = echo.send_on(&mut connection).await?;
        let closing = |reply: &holdfast_scenario_tests::request::Reply| reply.header("connection") == "close";
        ensure!(!closing(&first) && closing(&second), "{first:?} {second:?}");
        Ok(())
    })
    .await?;
    http(&world, GATEWAY, "preserveExternalRequestId: true, uuidRequestIdConfig: {packTraceReason: false}")?;
    let id = "11111111-2222-3333-4444-555555555555";
    let named = echo.clone().header("x-request-id", id);
    named
        .comes_to("the identity is kept", |reply| reply.echo().is_ok_and(|seen| seen.header("x-request-id") == [id]))
        .await?;
    Ok(())
}

async fn client_address_by_forwarded_header(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    world.write(
        "acl.yaml",
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: acl, namespace: default}\n\
         spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]\n  \
         acl: {defaultAction: deny, rules: [{cidrs: [192.0.2.7], action: allow}]}\n",
    )?;
    let _holdfast = world.run().await?;
    let forwarded = |client: &str| request(port).header("x-forwarded-for", client);
    forwarded("192.0.2.7").comes_to_answer(403).await?;
    http(&world, GATEWAY, "xffNumTrustedHops: 1")?;
    forwarded("192.0.2.8, 192.0.2.7").comes_to_reach("echo").await?;
    forwarded("192.0.2.7, 192.0.2.8").answers(403).await?;
    http(&world, GATEWAY, "useRemoteAddress: false, xffTrustedCIDRs: [127.0.0.0/8, 198.51.100.0/24]")?;
    forwarded("192.0.2.7, 198.51.100.3").comes_to_reach("echo").await?;
    forwarded("192.0.2.7, 203.0.113.1").answers(403).await?;
    world.delete("policy-p.yaml")?;
    forwarded("192.0.2.8, 192.0.2.7").comes_to_answer(403).await?;
    Ok(())
}

/// Writes a Gateway with the listeners `one` and `two`, and a route at both.
fn two_listeners(world: &World) -> Result<(u16, u16)> {
    let (one, two) = (world.port()?, world.port()?);
    let listeners = [listener("one", one, "protocol: HTTP"), listener("two", two, "protocol: HTTP")];
    world.gateway_with(&listeners.concat())?;
    world.route("r", ROUTE)?;
    Ok((one, two))
}

/// Faults that translation finds: at a listener this listener is closed, at a Gateway all of its listeners; other
/// Gateways are never closed.
async fn closed_by_what_translation_finds(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (one, two) = two_listeners(&world)?;
    let _holdfast = world.run().await?;
    request(one).comes_to_reach("echo").await?;
    let neighbour = Hammer::start([request(two)]);
    let format = "localReplies: {defaultBodyFormat: {text: \"%BOGUS(%\"}}";
    for wrong in ["idleTimeout: soon", "nonsense: true", format] {
        http(&world, &at("one"), wrong)?;
        request(one).comes_to_answer(500).await?;
        http(&world, &at("one"), "serverName: fine")?;
        request(one).comes_to_reach("echo").await?;
    }
    neighbour.stop_expecting(Shot::is_ok).await?;
    http(&world, GATEWAY, "idleTimeout: soon")?;
    request(one).comes_to_answer(500).await?;
    request(two).comes_to_answer(500).await?;
    http(&world, GATEWAY, "serverName: fine")?;
    request(one).comes_to_reach("echo").await?;
    request(two).comes_to_reach("echo").await?;
    Ok(())
}

/// Values that only Envoy refuses: invalid arguments of a command.
const REFUSED: [&str; 2] = [
    "localReplies: {defaultBodyFormat: {text: \"%FILTER_STATE(x:NOSUCH)%\"}}",
    "localReplies: {defaultBodyFormat: {text: \"%METADATA(NOSUCH:a:b)%\"}}",
];
/// An access log that only Envoy refuses: an invalid argument.
const LOGS_REFUSED: [&str; 1] =
    ["accessLog: [{fileSink: {path: /dev/stdout, stringFormat: \"%FILTER_STATE(x:NOSUCH)%\"}}]"];
/// Faults of access logs and tracing that translation finds.
const LOGS_UNUSABLE: [&str; 4] = [
    "accessLog: [{fileSink: {path: /dev/stdout, stringFormat: \"%NOSUCH%\"}}]",
    "accessLog: [{fileSink: {path: /tmp/x, stringFormat: a}}]",
    "accessLog: [{fileSink: {path: /dev/stdout, stringFormat: a}, filter: {celFilter: {match: \"((\"}}}]",
    "tracing: {provider: {}}",
];

/// Access logs and tracing do not protect requests: an unusable one closes no host, with every setting of the gates,
/// whether translation, the probe or Envoy finds it; the rest of the policy applies.
async fn what_only_observes_closes_nothing(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (one, two) = two_listeners(&world)?;
    let gate = ["--feature-gates", "FallbackConfiguration=true"];
    let backfill = [&gate[..], &["--use-last-valid-config-for-fallback=true"]].concat();
    for flags in [&[][..], &gate, &backfill] {
        for probe in ["off", "on"] {
            let options = HoldfastOptions::new(&world)?.args(&["--probe", probe]).args(flags);
            let holdfast = world.run_with(options).await?;
            request(one).comes_to_reach("echo").await?;
            request(two).comes_to_reach("echo").await?;
            let all = Hammer::start([request(one), request(two)]);
            let cases = LOGS_UNUSABLE.iter().map(|wrong| (wrong, false));
            for (index, (wrong, refused)) in cases.chain(LOGS_REFUSED.iter().map(|wrong| (wrong, true))).enumerate() {
                // Without the gate, other changes of the policy wait until the hold ends.
                let name = format!("server-{index}");
                http(&world, GATEWAY, &format!("serverName: {name}, {wrong}"))?;
                // Without the gate, a listener that the probe refuses is held as a whole: nothing is excluded or
                // closed.
                if refused && (probe == "off" || !flags.is_empty()) {
                    comes_to_leave_out(&holdfast, true).await?;
                }
                if !refused || !flags.is_empty() {
                    request(one).comes_to("the rest holds", |reply| reply.header("server") == name).await?;
                }
                http(&world, GATEWAY, &format!("serverName: fine-{index}"))?;
                let fine = format!("fine-{index}");
                request(two).comes_to("it is mended", |reply| reply.header("server") == fine).await?;
                comes_to_leave_out(&holdfast, false).await?;
            }
            all.stop_expecting(Shot::is_ok).await?;
            holdfast.terminate().await?.expect_code(0)?;
        }
    }
    Ok(())
}

/// Waits until the access log of policy `p` is reported as excluded, or until everything is as desired.
async fn comes_to_leave_out(holdfast: &Holdfast, wanted: bool) -> Result<()> {
    until("it is reported", || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let excluded = report["excludedObjects"].as_array().cloned().unwrap_or_default();
        let own = excluded
            .iter()
            .any(|object| object["name"] == "p" && object["section"] == "default.httpSettings.accessLog");
        let closed = report["replacedObjects"].as_array().is_some_and(|objects| !objects.is_empty());
        ensure!(own == wanted && !closed && (wanted || excluded.is_empty()), "{report}");
        Ok(())
    })
    .await
}

async fn closed_by_what_envoy_finds(world: World) -> Result<()> {
    refused_by_envoy(world, &["--probe", "off"], "nack").await
}

async fn closed_before_an_envoy_that_serves_finds_it(world: World) -> Result<()> {
    refused_by_envoy(world, &["--probe", "on"], "probe").await
}

async fn refused_by_envoy(world: World, flags: &[&str], detected_by: &str) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (one, two) = two_listeners(&world)?;
    let gate = ["--feature-gates", "FallbackConfiguration=true"];
    let options = HoldfastOptions::new(&world)?.args(&gate).args(flags);
    let holdfast = world.run_with(options).await?;
    if detected_by == "probe" {
        holdfast.comes_to_print(&["a probe is ready"]).await?;
    }
    request(one).comes_to_reach("echo").await?;
    request(two).comes_to_reach("echo").await?;
    let neighbour = Hammer::start([request(two)]);
    for refused in REFUSED {
        http(&world, &at("one"), refused)?;
        comes_to_blame(&holdfast, &[("p", detected_by)]).await?;
        request(one).comes_to_answer(500).await?;
        http(&world, &at("one"), "serverName: fine")?;
        request(one).comes_to("it is served again", |reply| reply.header("server") == "fine").await?;
        comes_to_blame(&holdfast, &[]).await?;
    }
    neighbour.goes_on(10).await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    // At the Gateway all of its listeners are closed.
    http(&world, GATEWAY, REFUSED[0])?;
    for port in [one, two] {
        request(port).comes_to_answer(500).await?;
    }
    comes_to_blame(&holdfast, &[("p", detected_by)]).await?;
    http(&world, GATEWAY, "serverName: fine")?;
    request(one).comes_to("it is served again", |reply| reply.header("server") == "fine").await?;
    request(two).comes_to_reach("echo").await?;
    if detected_by == "probe" {
        let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
        ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");
    }
    Ok(())
}

/// Waits until exactly these objects are reported as broken, each with its detector.
async fn comes_to_blame(holdfast: &Holdfast, wanted: &[(&str, &str)]) -> Result<()> {
    until(&format!("{wanted:?} are told to be broken"), || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let broken = report["brokenObjects"].as_array().cloned().unwrap_or_default();
        let text = |object: &serde_json::Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let blamed: Vec<_> = broken.iter().map(|object| (text(object, "name"), text(object, "detectedBy"))).collect();
        let same = blamed.len() == wanted.len()
            && blamed.iter().zip(wanted).all(|(found, wanted)| (&*found.0, &*found.1) == *wanted);
        ensure!(same, "{blamed:?}");
        Ok(())
    })
    .await
}
