//! Backends without fixed addresses: forward proxies, which do not reach the proxy itself; functions, called with a
//! signature; priority groups, with failover to the next group when all hosts of a group have failed.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) fn stories() -> Vec<Story> {
    stories!("policies::elsewhere", true, [anywhere, anywhere_but_the_proxy_itself, anywhere_by_tls, functions, groups])
}

pub(super) fn backend(world: &World, name: &str, spec: &str) -> Result<()> {
    let text = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: Backend\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{{spec}}}\n"
    );
    world.write(&format!("backend-{name}.yaml"), text)
}

/// Writes a rule for each of these Backends.
pub(super) fn route(world: &World, names: &[&str]) -> Result<()> {
    let rules = names.iter().map(|name| {
        format!(
            "- matches: [{{path: {{value: /{name}}}}}]\n  \
             backendRefs: [{{group: gateway.kgateway.dev, kind: Backend, name: {name}}}]\n"
        )
    });
    world.route("r", &format!("rules:\n{}", rules.collect::<String>()))
}

/// A server that answers every request with `answer` and records requests.
pub(crate) struct Plain {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<VecDeque<String>>>,
    serving: JoinHandle<()>,
}

impl Plain {
    pub(crate) async fn start(at: IpAddr, answer: &'static str) -> Result<Self> {
        Self::at(SocketAddr::new(at, 0), answer).await
    }

    pub(super) async fn at(address: SocketAddr, answer: &'static str) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(VecDeque::new()));
        let noted = seen.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let noted = noted.clone();
                tokio::spawn(async move {
                    let mut text = Vec::new();
                    let mut part = [0; 4096];
                    while let Ok(count) = stream.read(&mut part).await
                        && count > 0
                    {
                        text.extend_from_slice(part.get(..count).unwrap_or_default());
                        if !is_whole(&text) {
                            continue;
                        }
                        let request = String::from_utf8_lossy(&text).into_owned();
                        noted.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
                        text.clear();
                        let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(Self { address, seen, serving })
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns whether the request is complete.
fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// Returns an address of this machine that is not its loopback, if there is one; sends nothing.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Requests go to the host in the request, by address and by name; a host that a rule sets overrides it.
async fn anywhere(world: World) -> Result<()> {
    let (one, two) = (world.pod("default", "one", "one").await?, world.pod("default", "two", "two").await?);
    backend(&world, "anywhere", "dynamicForwardProxy: {}")?;
    let port = world.gateway()?;
    let of_two = two.address().port();
    world.route(
        "r",
        "rules:
- matches: [{path: {value: /rewritten}}]
  filters: [{type: URLRewrite, urlRewrite: {hostname: localhost}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: anywhere}]
- matches: [{path: {value: /anywhere}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: anywhere}]",
    )?;
    let _holdfast = world.run().await?;
    let request = |host: String| get(port, "/anywhere").host(&host);
    request(one.address().to_string()).comes_to_reach("one").await?;
    request(two.address().to_string()).reaches("two").await?;
    request(format!("localhost:{of_two}")).comes_to_reach("two").await?;
    request(format!("LOCALHOST:{of_two}")).comes_to_reach("two").await?;
    request("nobody.invalid".into()).answers(503).await?;
    // The rewritten host has the default port, where nothing listens.
    get(port, "/rewritten").host(&one.address().to_string()).answers(503).await?;
    Ok(())
}

/// Where loopback is denied, no request reaches the proxy's own host, however the host is written; other addresses are
/// reached.
async fn anywhere_but_the_proxy_itself(world: World) -> Result<()> {
    let inside = Plain::start(IpAddr::from([127, 0, 0, 1]), "inside").await?;
    let outside = match own_address() {
        Some(address) => Some(Plain::start(address, "outside").await?),
        None => None,
    };
    let of_inside = inside.address.port();
    backend(&world, "anywhere", "dynamicForwardProxy: {}")?;
    backend(&world, "secure", "dynamicForwardProxy: {enableTls: true}")?;
    let port = world.gateway()?;
    world.route(
        "r",
        "rules:
- matches: [{path: {value: /ready}}]
  filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /}}}]
- matches: [{path: {value: /anywhere}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: anywhere}]
- matches: [{path: {value: /secure}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: secure}]",
    )?;
    let options = HoldfastOptions::new(&world)?.args(&["--allow-loopback-backends=false"]);
    let pages = options.diagnostics;
    let _holdfast = world.run_with(options).await?;
    get(port, "/ready").comes_to_answer(302).await?;
    let names = [
        "127.0.0.1",
        "127.1.2.3",
        "localhost",
        "LocalHost",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "[::ffff:169.254.169.254]",
        "255.255.255.255",
        "224.0.0.1",
    ];
    for name in names {
        for path in ["/anywhere", "/secure"] {
            let host = format!("{name}:{of_inside}");
            let reply = get(port, path).host(&host).send().await.with_context(|| host.clone())?;
            ensure!([400, 403, 503].contains(&reply.status.as_u16()), "{path} {host}: {}", reply.status);
        }
    }
    // Upgrades and retries do not circumvent this, and Holdfast's own pages are not reachable.
    let upgrade = get(port, "/anywhere").host(&inside.address.to_string());
    let upgrade = upgrade.header("connection", "upgrade").header("upgrade", "websocket").send().await?;
    ensure!([403, 503].contains(&upgrade.status.as_u16()), "{}", upgrade.status);
    get(port, "/anywhere").host(&format!("127.0.0.1:{pages}")).answers(503).await?;
    ensure!(inside.seen().is_empty(), "{:?}", inside.seen());
    if let Some(outside) = &outside {
        let request = get(port, "/anywhere").host(&outside.address.to_string());
        request.comes_to_answer(200).await?;
        ensure!(outside.seen().len() == 1, "{:?}", outside.seen());
    }
    Ok(())
}

/// With TLS, a server without a valid certificate for the name receives no request.
async fn anywhere_by_tls(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let certificate = Certificate::of(&["localhost"])?;
    let secured = holdfast_scenario_tests::secured::Secured::start(&certificate, None, echo.address()).await?;
    backend(&world, "secure", "dynamicForwardProxy: {enableTls: true}")?;
    backend(&world, "plain", "dynamicForwardProxy: {}")?;
    let port = world.gateway()?;
    route(&world, &["secure", "plain"])?;
    let _holdfast = world.run().await?;
    get(port, "/plain").host(&echo.address().to_string()).comes_to_reach("echo").await?;
    let of_secured = secured.address.port();
    for host in [format!("localhost:{of_secured}"), echo.address().to_string()] {
        let reply = get(port, "/secure").host(&host).send().await?;
        ensure!(reply.status == 503, "{host}: {}", reply.status);
    }
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    Ok(())
}

/// A request is converted to a signed call of the function with the key in the Secret, and with the new key after a
/// change; without the Secret nothing is called.
async fn functions(world: World) -> Result<()> {
    let aws = Plain::start(IpAddr::from([127, 0, 0, 1]), r#"{"statusCode": 201, "body": "made"}"#).await?;
    let secret = |name: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: aws, namespace: default}}\n\
             stringData: {{accessKey: {name}, secretKey: canary-of-the-key}}\n"
        );
        world.write("aws.yaml", text)
    };
    secret("AKIDONE")?;
    let function = |name: &str, more: &str| {
        let spec = format!(
            "aws: {{region: eu-west-1, auth: {{type: Secret, secretRef: {{name: aws}}}}, lambda: {{functionName: {name}, \
             accountId: '123456789012', endpointURL: 'http://{}'{more}}}}}",
            aws.address
        );
        backend(&world, name, &spec)
    };
    function("wrapped", "")?;
    function("plain", ", payloadTransformMode: None, qualifier: live, invocationMode: Async")?;
    let port = world.gateway()?;
    route(&world, &["wrapped", "plain"])?;
    let holdfast = world.run().await?;

    get(port, "/wrapped/x").comes_to_answer(201).await?;
    let seen = aws.seen().pop().unwrap_or_default();
    let call = "POST /2015-03-31/functions/arn:aws:lambda:eu-west-1:123456789012:function:wrapped:$LATEST/invocations";
    ensure!(seen.starts_with(call), "{seen}");
    ensure!(seen.contains("authorization: AWS4-HMAC-SHA256 Credential=AKIDONE/"), "{seen}");
    ensure!(seen.contains("/eu-west-1/lambda/aws4_request") && seen.contains("/wrapped/x"), "{seen}");
    ensure!(!seen.contains("canary-of-the-key"), "{seen}");

    get(port, "/plain").body("own words").answers(200).await?;
    let seen = aws.seen().pop().unwrap_or_default();
    ensure!(seen.contains(":function:plain:live/invocations") && seen.ends_with("own words"), "{seen}");
    ensure!(seen.contains("x-amz-invocation-type: Event"), "{seen}");

    secret("AKIDTWO")?;
    get(port, "/plain")
        .comes_to("be signed anew", |_| aws.seen().pop().unwrap_or_default().contains("Credential=AKIDTWO/"))
        .await?;
    world.delete("aws.yaml")?;
    get(port, "/plain").comes_to_answer(500).await?;
    let before = aws.seen().len();
    get(port, "/plain").answers(500).await?;
    get(port, "/wrapped").comes_to_answer(500).await?;
    ensure!(aws.seen().len() == before, "called without a key");
    holdfast.terminate().await?;
    ensure!(!world.logs().contains("canary-of-the-key"), "a log shows the key");
    Ok(())
}

/// Requests go to the first group while any of its hosts is healthy, to the next group after all have failed, and back
/// again.
async fn groups(world: World) -> Result<()> {
    let (one, two) = (world.pod("default", "one", "one").await?, world.pod("default", "two", "two").await?);
    let spare = world.pod("default", "spare", "spare").await?;
    let at = |address: SocketAddr| format!("static: {{hosts: [{{host: {}, port: {}}}]}}", address.ip(), address.port());
    for (name, echo) in [("one", &one), ("two", &two), ("spare", &spare)] {
        backend(&world, name, &at(echo.address()))?;
    }
    backend(
        &world,
        "groups",
        "priorityGroups: [{backendRefs: [{name: one}, {name: two}]}, {backendRefs: [{name: spare}]}]",
    )?;
    // A host that fails once is ejected for longer than this story lasts.
    let failed = "outlierDetection: {consecutive5xx: 1, baseEjectionTime: 300s, maxEjectionPercent: 100}";
    let policy = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
         metadata: {{name: groups, namespace: default}}\n\
         spec: {{targetRefs: [{{group: gateway.kgateway.dev, kind: Backend, name: groups}}], {failed}}}\n"
    );
    world.write("policy.yaml", policy)?;
    let port = world.gateway()?;
    route(&world, &["groups"])?;
    let _holdfast = world.run().await?;
    let request = get(port, "/groups");
    request.comes_to_reach("one").await?;
    request.comes_to_reach("two").await?;
    drop(one);
    // One healthy host of two is sufficient: no request goes to the spare one.
    let calm = Hammer::start([request.clone()]);
    calm.goes_on(50).await?;
    for (shot, _) in calm.stop().await {
        ensure!(!format!("{shot:?}").contains("spare"), "{shot:?}");
    }
    drop(two);
    request.comes_to_reach("spare").await?;
    // A new host belongs to the first group.
    let again = world.pod("default", "again", "again").await?;
    backend(&world, "two", &at(again.address()))?;
    request.comes_to_reach("again").await?;
    drop(spare);
    request.comes_to_reach("again").await?;
    world.delete("backend-one.yaml")?;
    request.comes_to_answer(500).await?;
    Ok(())
}
