//! Policies of hosts and routes: headers, mirrors, redirects, addresses, limits.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories, until};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::policies", true, [policies_of_routes, denied_addresses, requests_over_the_limit])
}

async fn policies_of_routes(world: World) -> Result<()> {
    let (_echo, mirror) =
        (world.backend_in("shop", "echo", None).await?, world.backend_in("shop", "mirror", None).await?);
    let spec = "virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /headers}]
  requestHeadersPolicy:
    set: [{name: Host, value: inside.example.com}, {name: x-from, value: '%CONTOUR_NAMESPACE% 100%'}]
    remove: [x-secret]
  responseHeadersPolicy: {set: [{name: x-served, value: 'yes'}]}
  services: [{name: echo, port: 8080}, {name: mirror, port: 8080, mirror: true}]
- conditions: [{prefix: /cookie}]
  loadBalancerPolicy: {strategy: Cookie}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /go}]
  requestRedirectPolicy: {hostname: www.example.com, scheme: https, statusCode: 307}
- conditions: [{prefix: /teapot}]
  directResponsePolicy: {statusCode: 418, body: short and stout}";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    let reply = served.get("example.com", "/headers").header("x-secret", "1").comes_to_reach("echo").await?;
    ensure!(reply.header("x-served") == "yes", "the response header is not set");
    let echo = reply.echo()?;
    ensure!(echo.host == "inside.example.com", "{}", echo.host);
    ensure!(echo.header("x-from") == ["shop 100%"], "{:?}", echo.header("x-from"));
    ensure!(echo.header("x-secret").is_empty(), "{:?}", echo.header("x-secret"));
    until("the copy arrives", || async {
        ensure!(mirror.received() > 0, "no copy");
        Ok(())
    })
    .await?;
    let cookie = served.get("example.com", "/cookie").comes_to_reach("echo").await?.header("set-cookie");
    ensure!(cookie.starts_with("X-Contour-Session-Affinity="), "{cookie}");
    let moved = served.get("example.com", "/go").answers(307).await?.header("location");
    ensure!(moved == "https://www.example.com/go", "{moved}");
    served.get("example.com", "/teapot").answers(418).await?;
    Ok(())
}

async fn denied_addresses(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let spec = |cidr: &str| {
        format!(
            "virtualhost: {{fqdn: example.com, ipDenyPolicy: [{{source: Peer, cidr: {cidr}}}]}}
routes:
- services: [{{name: echo, port: 8080}}]
- conditions: [{{prefix: /own}}]
  ipAllowPolicy: [{{source: Peer, cidr: 127.0.0.0/8}}]
  services: [{{name: echo, port: 8080}}]"
        )
    };
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("10.0.0.0/8")))?;
    let served = serve(&world).await?;
    served.get("example.com", "/").comes_to_reach("echo").await?;
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("127.0.0.0/8")))?;
    served.get("example.com", "/").comes_to_answer(403).await?;
    served.get("example.com", "/own").reaches("echo").await?;
    // An invalid list closes the host.
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("nonsense")))?;
    served.get("example.com", "/").comes_to_answer(500).await?;
    served.get("example.com", "/own").answers(500).await?;
    Ok(())
}

async fn requests_over_the_limit(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /limited}]
  rateLimitPolicy: {local: {requests: 1, unit: hour, responseHeadersToAdd: [{name: x-limit, value: 'yes'}]}}
  services: [{name: echo, port: 8080}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/").comes_to_reach("echo").await?;
    served.get("example.com", "/limited").reaches("echo").await?;
    let over = served.get("example.com", "/limited").answers(429).await?;
    ensure!(over.header("x-limit") == "yes", "the header is not there");
    served.get("example.com", "/").reaches("echo").await?;
    Ok(())
}
