//! tcpproxy: connections that are forwarded as they are, with TLS terminated or passed through.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::service;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::streams", true, [connections_are_passed_on, a_delegation_that_leads_nowhere])
}

async fn refuses(request: &HttpRequest) -> Result<()> {
    ensure!(request.send().await.is_err(), "{} is answered", request.line());
    Ok(())
}

async fn connections_are_passed_on(world: World) -> Result<()> {
    let echo = world.backend_in("shop", "echo", None).await?;
    let _other = world.backend_in("shop", "other", None).await?;
    let (here, there) = (Certificate::of(&["*.example.com"])?, Certificate::of(&["there.example.com"])?);
    let front = there.front(echo.address()).await?;
    world.write("front.yaml", service("shop", "front", None, &[front.address]))?;
    world.write("secret.yaml", here.secret("shop", "here"))?;
    let host = |name: &str, tls: &str, more: &str, rest: &str| {
        let spec = format!("virtualhost: {{fqdn: {name}.example.com, tls: {{{tls}}}{more}}}\n{rest}");
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
    };
    let both = "tcpproxy:
  services: [{name: echo, port: 8080, weight: 1}, {name: other, port: 8080, weight: 1}]
  healthCheckPolicy: {intervalSeconds: 1, timeoutSeconds: 1, unhealthyThresholdCount: 1, healthyThresholdCount: 1}
  loadBalancerPolicy: {strategy: Random}
routes:
- services: [{name: other, port: 8080}]
- conditions: [{prefix: /open}]
  permitInsecure: true
  services: [{name: other, port: 8080}]";
    let echoed = "tcpproxy: {services: [{name: echo, port: 8080}]}";
    host("here", "secretName: here", "", both)?;
    host("there", "passthrough: true", "", "tcpproxy: {services: [{name: front, port: 8080}]}")?;
    host("again", "secretName: here", "", "tcpproxy: {services: [{name: front, port: 8080, protocol: tls}]}")?;
    host("local", "secretName: here", ", ipAllowPolicy: [{source: Peer, cidr: 127.0.0.0/8}]", echoed)?;
    host("strange", "secretName: here", ", ipDenyPolicy: [{source: Peer, cidr: 127.0.0.0/8}]", echoed)?;
    host("gone", "secretName: here", "", "tcpproxy: {services: [{name: nobody, port: 8080}]}")?;
    let served = serve(&world).await?;
    let request = |name: &str| {
        let host = format!("{name}.example.com");
        let certificate = if name == "there" { &there } else { &here };
        get(served.https, "/any/path").host(&host).tls(certificate.trust(&host))
    };
    for pod in ["echo", "other"] {
        // Each connection is forwarded to one of them.
        request("here").comes_to_reach(pod).await?;
    }
    let seen = request("there").comes_to_reach("echo").await?.echo()?;
    // Nothing is inserted into the stream.
    ensure!(seen.header("x-request-id").is_empty(), "{:?}", seen.headers);
    for name in ["again", "local"] {
        request(name).comes_to_reach("echo").await?;
    }
    for name in ["strange", "gone"] {
        refuses(&request(name)).await?;
    }
    // Without TLS, the routes apply.
    served.get("here.example.com", "/open").comes_to_reach("other").await?;
    served.get("here.example.com", "/").answers(301).await?;
    served.get("there.example.com", "/").answers(404).await?;
    Ok(())
}

async fn a_delegation_that_leads_nowhere(world: World) -> Result<()> {
    let (_echo, _end) = (world.backend_in("shop", "echo", None).await?, world.backend_in("data", "end", None).await?);
    let here = Certificate::of(&["*.example.com"])?;
    world.write("secret.yaml", here.secret("shop", "here"))?;
    let wild = "virtualhost: {fqdn: \"*.example.com\", tls: {secretName: here}}\nroutes:\n- permitInsecure: true\n  \
                services: [{name: echo, port: 8080}]";
    world.write("wild.yaml", proxy("shop", "wild", wild))?;
    let root = "virtualhost: {fqdn: data.example.com, tls: {secretName: here}}\ntcpproxy: {include: {name: middle, \
                namespace: data}}\nroutes:\n- permitInsecure: true\n  services: [{name: echo, port: 8080}]";
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("middle.yaml", proxy("data", "middle", "tcpproxy: {includes: {name: end}}"))?;
    let end = proxy("data", "end", "tcpproxy: {services: [{name: end, port: 8080}]}");
    world.write("end.yaml", &end)?;
    let served = serve(&world).await?;
    let request = |name: &str| get(served.https, "/").host(name).tls(here.trust(name));
    request("data.example.com").comes_to_reach("end").await?;
    request("any.example.com").comes_to_reach("echo").await?;
    let neighbours = Hammer::start([
        request("any.example.com"),
        served.get("any.example.com", "/"),
        served.get("data.example.com", "/"),
    ]);
    let circle = proxy("data", "end", "tcpproxy: {include: {name: middle}}");
    for (text, current) in [(None, "invalid"), (Some(circle), "valid")] {
        match &text {
            Some(text) => world.write("end.yaml", text)?,
            None => world.delete("end.yaml")?,
        }
        until("connections are refused", || async { refuses(&request("data.example.com")).await }).await?;
        served.comes_to_be("data", "middle", current).await?;
        served.comes_to_be("shop", "root", "valid").await?;
        world.write("end.yaml", &end)?;
        request("data.example.com").comes_to_reach("end").await?;
        served.comes_to_be("data", "end", "valid").await?;
    }
    neighbours.goes_on(20).await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}
