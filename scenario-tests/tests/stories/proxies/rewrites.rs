//! Rewriting of prefixes with several routes, includes and roots.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::rewrites", true, [prefixes_of_several_routes, one_leaf_of_several_roots, hosts_from_headers])
}

/// The host that a backend receives is copied from another header of the request, if the request has it.
async fn hosts_from_headers(world: World) -> Result<()> {
    let _backend = world.backend_in("shop", "a", None).await?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /copied}, {header: {name: ':method', exact: GET}}]
  requestHeadersPolicy: {set: [{name: Host, value: '%REQ(X-Wanted-Host)%'}]}
  services: [{name: a, port: 8080}]
- conditions: [{prefix: /literal}]
  requestHeadersPolicy: {set: [{name: Host, value: shop.internal}]}
  services: [{name: a, port: 8080}]
- conditions: [{prefix: /service}]
  services: [{name: a, port: 8080, requestHeadersPolicy: {set: [{name: Host, value: a.internal}]}}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/copied").comes_to_reach("a").await?;
    let rows = [
        ("/copied", Some("other.example.com"), "other.example.com"),
        ("/copied", None, "example.com"),
        ("/literal", Some("other.example.com"), "shop.internal"),
        ("/service", Some("other.example.com"), "a.internal"),
    ];
    for (path, wanted, seen) in rows {
        let request = served.get("example.com", path);
        let request = match wanted {
            Some(host) => request.header("x-wanted-host", host),
            None => request,
        };
        let reply = request.reaches("a").await?;
        ensure!(reply.echo()?.host == seen, "{path} with {wanted:?}: {reply:?}");
    }
    served.get("example.com", "/copied").method(hyper::Method::POST).answers(404).await?;
    Ok(())
}

async fn prefixes_of_several_routes(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "a", None).await?, world.backend_in("shop", "b", None).await?);
    let spec = "virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /both}]
  pathRewritePolicy: {replacePrefix: [{replacement: /bar}]}
  services: [{name: a, port: 8080}]
- conditions: [{prefix: /both/}]
  services: [{name: b, port: 8080}]
- conditions: [{prefix: /split}, {header: {name: x-a, present: true}}]
  pathRewritePolicy: {replacePrefix: [{replacement: /one/}]}
  services: [{name: a, port: 8080}]
- conditions: [{prefix: /split}]
  pathRewritePolicy: {replacePrefix: [{replacement: /}]}
  services: [{name: b, port: 8080}]
- conditions: [{prefix: /written/}]
  pathRewritePolicy: {replacePrefix: [{replacement: /bar}]}
  services: [{name: a, port: 8080}]
- conditions: [{exact: /written}]
  services: [{name: b, port: 8080}]
- conditions: [{prefix: /query}, {queryParameter: {name: q, exact: '1'}}]
  pathRewritePolicy: {replacePrefix: [{replacement: /bar}]}
  services: [{name: a, port: 8080}]
- conditions: [{prefix: /query/}]
  services: [{name: b, port: 8080}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/both").comes_to_reach("a").await?;
    let rows = [
        // Both forms are configured: both stay as they are.
        ("/both", "", "a", "/bar"),
        ("/bothall", "", "a", "/barall"),
        ("/both/", "", "b", "/both/"),
        ("/both/x", "", "b", "/both/x"),
        // Two routes that differ by a header: each is split in two.
        ("/split", "x-a", "a", "/one"),
        ("/split/", "x-a", "a", "/one/"),
        ("/split/x", "x-a", "a", "/one/x"),
        ("/split", "", "b", "/"),
        ("/split/", "", "b", "/"),
        ("/split/x", "", "b", "/x"),
        // A configured route takes precedence over a generated one.
        ("/written", "", "b", "/written"),
        ("/written/x", "", "a", "/bar/x"),
        ("/query/x?q=1", "", "b", "/query/x?q=1"),
        ("/query?q=1", "", "a", "/bar?q=1"),
    ];
    for (path, header, pod, seen) in rows {
        let request = served.get("example.com", path);
        let request = if header.is_empty() { request } else { request.header(header, "1") };
        let echo = request.reaches(pod).await?.echo()?;
        ensure!(echo.path == seen, "{path} is {} to the backend instead of {seen}", echo.path);
    }
    Ok(())
}

async fn one_leaf_of_several_roots(world: World) -> Result<()> {
    let _app = world.backend_in("shop", "app", None).await?;
    let root = |name: &str, includes: &str| {
        let spec = format!("virtualhost: {{fqdn: {name}.example.com}}\nincludes:\n{includes}");
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
    };
    root(
        "one",
        "- {name: app, conditions: [{prefix: /v1/}]}\n- {name: app, conditions: [{prefix: /v2/}]}\n- {name: app, conditions: [{prefix: /}]}",
    )?;
    root("two", "- {name: between, conditions: [{prefix: /api}]}")?;
    let between = "includes:\n- {name: app, conditions: [{prefix: /v2}]}\n- {name: deep, conditions: [{prefix: /v3}]}";
    world.write("between.yaml", proxy("shop", "between", between))?;
    let deep = "includes:\n- {name: app, conditions: [{prefix: /x/}]}";
    world.write("deep.yaml", proxy("shop", "deep", deep))?;
    let app = "routes:
- pathRewritePolicy:
    replacePrefix:
    - {replacement: /other/}
    - {prefix: /, replacement: /v1/}
    - {prefix: /api/v2, replacement: /second}
  services: [{name: app, port: 8080}]";
    world.write("app.yaml", proxy("shop", "app", app))?;
    let served = serve(&world).await?;
    served.get("one.example.com", "/v1/x").comes_to_reach("app").await?;
    served.get("two.example.com", "/api/v2/x").comes_to_reach("app").await?;
    let rows = [
        ("one", "/v1/x", "/other/x"),
        ("one", "/v1", "/other"),
        ("one", "/v2/x", "/other/x"),
        ("one", "/x", "/v1/x"),
        ("two", "/api/v2/x", "/second/x"),
        ("two", "/api/v2", "/second"),
        ("two", "/api/v2x", "/secondx"),
        ("two", "/api/v3/x/y", "/other/y"),
        ("two", "/api/v3/x", "/other"),
    ];
    for (host, path, seen) in rows {
        let echo = served.get(&format!("{host}.example.com"), path).reaches("app").await?.echo()?;
        ensure!(echo.path == seen, "{host} {path} is {} to the backend instead of {seen}", echo.path);
    }
    Ok(())
}
