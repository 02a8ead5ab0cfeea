//! Rate limits of HTTPProxies: local ones of a host, and global ones of a rate limit service.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::services::limits::Limiter;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::auth::{did_not_pass, extension};
use super::{proxy, serve, serve_with};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::limits", true, [counted_for_all, nothing_is_open_without_the_service, of_a_whole_host])
}

const FLAGS: [&str; 5] =
    ["--rate-limit-service", "infra/limits", "--rate-limit-domain", "shop", "--rate-limit-headers"];

async fn counted_for_all(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let limiter = Limiter::start(3).await?;
    world.write("limits.yaml", extension("infra", "limits", "h2c", limiter.address()))?;
    let spec = "virtualhost:
  fqdn: example.com
  rateLimitPolicy: {global: {descriptors: [{entries: [{genericKey: {value: host}}]}]}}
routes:
- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /own}]
  rateLimitPolicy:
    global:
      descriptors:
      - entries: [{genericKey: {key: kind, value: own}}, {requestHeader: {headerName: x-user, descriptorKey: user}}]
      - entries:
        - requestHeaderValueMatch: {headers: [{name: x-tier, exact: gold}], expectMatch: false, value: not-gold}
        - remoteAddress: {}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /free}]
  rateLimitPolicy: {global: {disabled: true}}
  services: [{name: echo, port: 8080}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve_with(&world, &FLAGS).await?;
    let get = |path: &str| served.get("example.com", path);
    get("/free").comes_to_reach("echo").await?;
    // Three requests per descriptor pass.
    get("/").comes_to_answer(429).await?;
    let counts = limiter.counts();
    ensure!(counts.get("shop: generic_key=host") == Some(&4), "{counts:?}");
    let own = |user: &str| get("/own").header("x-user", user).header("x-tier", "gold");
    for _ in 0..3 {
        own("a").reaches("echo").await?;
    }
    own("a").answers(429).await?;
    own("b").reaches("echo").await?;
    get("/own").header("x-tier", "gold").reaches("echo").await?;
    for _ in 0..3 {
        get("/own").reaches("echo").await?;
    }
    get("/own").answers(429).await?;
    let counts = limiter.counts();
    let kinds: Vec<&str> = counts.keys().map(String::as_str).collect();
    let expected = [
        "shop: generic_key=host",
        "shop: header_match=not-gold, remote_address=127.0.0.1",
        "shop: kind=own, user=a",
        "shop: kind=own, user=b",
    ];
    ensure!(kinds == expected, "{counts:?}");
    for _ in 0..10 {
        get("/free").reaches("echo").await?;
    }
    served.comes_to_be("shop", "proxy", "valid").await
}

async fn nothing_is_open_without_the_service(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let limiter = Limiter::start(u64::MAX).await?;
    let limits = extension("infra", "limits", "h2c", limiter.address());
    let other = "virtualhost: {fqdn: other.example.com}\nroutes:\n- services: [{name: echo, port: 8080}]";
    world.write("other.yaml", proxy("shop", "other", other))?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /limited}]
  rateLimitPolicy: {global: {descriptors: [{entries: [{remoteAddress: {}}]}]}}
  services: [{name: echo, port: 8080}]";
    world.write("limits.yaml", &limits)?;
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    // No rate limit service is configured.
    let served = serve(&world).await?;
    served.get("example.com", "/").comes_to_reach("echo").await?;
    served.get("example.com", "/limited").answers(404).await?;
    served.comes_to_be("shop", "proxy", "invalid").await?;
    served.holdfast.terminate().await?;
    let served = serve_with(&world, &FLAGS).await?;
    let limited = served.get("example.com", "/limited");
    limited.comes_to_reach("echo").await?;
    served.get("other.example.com", "/").comes_to_reach("echo").await?;
    let neighbour = Hammer::start([served.get("other.example.com", "/")]);
    // The service is deleted, refers to nothing, cannot be parsed, does not answer.
    let gone = Limiter::start(1).await?;
    let nowhere = gone.address();
    drop(gone);
    let broken = [
        (None, 404),
        (Some(limits.replace("port: 8080}]", "port: 9}]")), 404),
        (Some(limits.replace("protocol: h2c", "protocol: {}")), 404),
        (Some(extension("infra", "limits", "h2c", nowhere)), 500),
    ];
    for (content, status) in broken {
        match content {
            Some(content) => world.write("limits.yaml", content)?,
            None => world.delete("limits.yaml")?,
        }
        limited.comes_to_answer(status).await?;
        served.get("example.com", "/").comes_to_reach("echo").await?;
        let closed = Hammer::start([limited.clone()]);
        closed.goes_on(5).await?;
        closed.stop_expecting(did_not_pass).await?;
        world.write("limits.yaml", &limits)?;
        limited.comes_to_reach("echo").await?;
    }
    // Invalid descriptors: that route is closed.
    let bad = [
        "{entries: [{}]}",
        "{entries: [{remoteAddress: {}, genericKey: {value: a}}]}",
        "{entries: [{requestHeader: {headerName: 'x y', descriptorKey: a}}]}",
    ];
    for entries in bad {
        world
            .write("proxy.yaml", proxy("shop", "proxy", &spec.replace("{entries: [{remoteAddress: {}}]}", entries)))?;
        limited.comes_to_answer(404).await?;
        world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
        limited.comes_to_reach("echo").await?;
    }
    neighbour.stop_expecting(|shot| shot.is_ok()).await.map(drop)
}

async fn of_a_whole_host(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let spec = |requests: &str| {
        format!(
            "virtualhost: {{fqdn: example.com, rateLimitPolicy: {{local: {{requests: {requests}, unit: hour}}}}}}
routes:
- services: [{{name: echo, port: 8080}}]
- conditions: [{{prefix: /a}}]
  services: [{{name: echo, port: 8080}}]
- conditions: [{{prefix: /own}}]
  rateLimitPolicy: {{local: {{requests: 1, unit: hour, responseStatusCode: 503}}}}
  services: [{{name: echo, port: 8080}}]"
        )
    };
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("1000")))?;
    let served = serve(&world).await?;
    let get = |path: &str| served.get("example.com", path);
    get("/").comes_to_reach("echo").await?;
    // All routes of the host share the limit, except a route with its own limit.
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("3")))?;
    until("the new limit holds", || async {
        get("/").answers(429).await?;
        Ok(())
    })
    .await?;
    get("/a").answers(429).await?;
    get("/own").comes_to_answer(503).await?;
    world.write("proxy.yaml", proxy("shop", "proxy", &spec("-1")))?;
    get("/").comes_to_answer(500).await.map(drop)
}
