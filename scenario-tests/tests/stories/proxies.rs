//! HTTPProxies through a real Envoy: includes, rewriting, duplicates, TLS, and what is broken beside what is not.

mod gateway;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::ask::{Ask, get};
use holdfast_scenario_tests::holdfast::{Holdfast, HoldfastOptions};
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    let own = stories!(
        "proxies",
        true,
        [
            includes_across_namespaces,
            prefixes_are_rewritten,
            the_first_of_two_duplicates_is_served,
            hosts_with_tls,
            a_broken_child_beside_a_good_one,
            policies_of_routes,
            addresses_that_may_not_come_in,
            requests_over_the_limit,
        ]
    );
    [own, gateway::stories()].concat()
}

/// The ports of the listeners, and Holdfast.
struct Served {
    http: u16,
    https: u16,
    holdfast: Holdfast,
}

async fn serve(world: &World) -> Result<Served> {
    let (http, https) = (world.port()?, world.port()?);
    let (first, second) = (http.to_string(), https.to_string());
    let options = HoldfastOptions::new(world)?.args(&["--httpproxy-http", &first, "--httpproxy-https", &second]);
    Ok(Served { http, https, holdfast: world.run_with(options).await? })
}

fn proxy(namespace: &str, name: &str, spec: &str) -> String {
    let spec: String = spec.trim().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n{spec}"
    )
}

impl Served {
    fn get(&self, host: &str, path: &str) -> Ask {
        get(self.http, path).host(host)
    }

    /// `Valid` of a proxy, as its status has it.
    async fn status(&self, namespace: &str, name: &str) -> Result<serde_json::Value> {
        let statuses = self.holdfast.diagnostics("/debug/statuses").await?;
        let text = statuses.to_string();
        let all = statuses.get("objects").and_then(|all| all.as_array()).cloned().unwrap_or_default();
        let is_it = |status: &serde_json::Value| {
            let object = &status["object"];
            object["kind"] == "HTTPProxy" && object["namespace"] == namespace && object["name"] == name
        };
        all.into_iter().find(is_it).map(|mut status| status["status"].take()).ok_or_else(|| anyhow::anyhow!("{text}"))
    }

    async fn comes_to_be(&self, namespace: &str, name: &str, current: &str) -> Result<()> {
        until("the status says so", || async {
            let status = self.status(namespace, name).await?;
            ensure!(status["currentStatus"] == current, "{status}");
            Ok(())
        })
        .await
    }
}

async fn includes_across_namespaces(world: World) -> Result<()> {
    let _shop = world.backend_in("shop", "front", None).await?;
    let _blog = world.backend_in("blog", "posts", None).await?;
    let root = "virtualhost: {fqdn: www.example.com}
includes:
- {name: posts, namespace: blog, conditions: [{prefix: /blog}]}
- {name: posts, namespace: blog, conditions: [{prefix: /news}, {header: {name: x-beta, present: true}}]}
- {name: nobody, namespace: blog, conditions: [{prefix: /gone}]}
routes:
- services: [{name: front, port: 8080}]";
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("posts.yaml", proxy("blog", "posts", "routes:\n- services: [{name: posts, port: 8080}]"))?;
    let served = serve(&world).await?;
    served.get("www.example.com", "/").comes_to_reach("front").await?;
    served.get("www.example.com", "/blog/1").comes_to_reach("posts").await?;
    served.get("www.example.com", "/news/1").reaches("front").await?;
    served.get("www.example.com", "/news/1").header("x-beta", "").reaches("posts").await?;
    served.get("www.example.com", "/gone/1").answers(502).await?;
    served.get("other.example.com", "/").answers(404).await?;
    // What was missing is there later, and nothing else is touched.
    let hammer = Hammer::start([served.get("www.example.com", "/blog/1"), served.get("www.example.com", "/")]);
    world.write("nobody.yaml", proxy("blog", "nobody", "routes:\n- directResponsePolicy: {statusCode: 204}"))?;
    served.get("www.example.com", "/gone/1").comes_to_answer(204).await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    served.comes_to_be("shop", "root", "valid").await
}

async fn prefixes_are_rewritten(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let mut routes = "virtualhost: {fqdn: t.example.com}\nroutes:\n".to_owned();
    for (prefix, replacement) in
        [("/ss", "/bar"), ("/sl", "/bar/"), ("/ls/", "/bar"), ("/ll/", "/bar/"), ("/root", "/"), ("/root-long/", "/")]
    {
        routes += &format!(
            "- conditions: [{{prefix: {prefix}}}]\n  pathRewritePolicy: {{replacePrefix: [{{replacement: {replacement}}}]}}\n  services: [{{name: echo, port: 8080}}]\n"
        );
    }
    world.write("table.yaml", proxy("shop", "table", &routes))?;
    for (name, replacement) in [("all", "/bar"), ("all-long", "/bar/")] {
        let spec = format!(
            "virtualhost: {{fqdn: {name}.example.com}}\nroutes:\n- pathRewritePolicy: {{replacePrefix: [{{replacement: {replacement}}}]}}\n  services: [{{name: echo, port: 8080}}]"
        );
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))?;
    }
    let served = serve(&world).await?;
    let rows = [
        ("t", "/ss", "/bar"),
        ("t", "/ss/", "/bar/"),
        ("t", "/ss/type?a=b", "/bar/type?a=b"),
        ("t", "/sssball", "/barsball"),
        ("t", "/sl", "/bar"),
        ("t", "/sl/type", "/bar/type"),
        ("t", "/slsball", "/barsball"),
        ("t", "/ls", "/bar"),
        ("t", "/ls/", "/bar/"),
        ("t", "/ls/type", "/bar/type"),
        ("t", "/ll", "/bar"),
        ("t", "/ll/type", "/bar/type"),
        ("t", "/root", "/"),
        ("t", "/root/", "/"),
        ("t", "/root/type", "/type"),
        ("t", "/rootsball", "/sball"),
        ("t", "/root-long", "/"),
        ("t", "/root-long/type", "/type"),
        ("all", "/x", "/barx"),
        ("all-long", "/x", "/bar/x"),
    ];
    for (host, path, seen) in rows {
        let echo = served.get(&format!("{host}.example.com"), path).comes_to_reach("echo").await?.echo()?;
        ensure!(echo.path == seen, "{host} {path} is {} to the back end instead of {seen}", echo.path);
    }
    // What was made for the path without its slash is for that path only.
    for path in ["/lsball", "/llball"] {
        served.get("t.example.com", path).answers(404).await?;
    }
    Ok(())
}

async fn the_first_of_two_duplicates_is_served(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "s1", None).await?, world.backend_in("shop", "s2", None).await?);
    let root = "virtualhost: {fqdn: example.com}
includes:
- {name: child1, conditions: [{prefix: /foo}]}
- {name: child2, conditions: [{prefix: /foo}]}";
    let child = |service: &str, path: &str| {
        format!(
            "routes:\n- conditions: [{{prefix: {path}}}]\n  services: [{{name: {service}, port: 8080}}]\n- conditions: [{{prefix: /{service}}}]\n  services: [{{name: {service}, port: 8080}}]"
        )
    };
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("child1.yaml", proxy("shop", "child1", &child("s1", "/bar")))?;
    world.write("child2.yaml", proxy("shop", "child2", &child("s2", "/bar")))?;
    let served = serve(&world).await?;
    served.get("example.com", "/foo/bar").comes_to_reach("s1").await?;
    served.get("example.com", "/foo/s2").reaches("s2").await?;
    served.comes_to_be("shop", "child2", "invalid").await?;
    served.comes_to_be("shop", "child1", "valid").await?;
    let status = served.status("shop", "root").await?;
    ensure!(status["currentStatus"] == "valid", "{status}");
    let warning = &status["conditions"][0]["warnings"][0];
    ensure!(warning["reason"] == "DuplicateMatchConditions", "{status}");
    // Whoever leaves makes room for the other.
    world.write("child1.yaml", proxy("shop", "child1", &child("s1", "/elsewhere")))?;
    served.get("example.com", "/foo/bar").comes_to_reach("s2").await?;
    served.comes_to_be("shop", "child2", "valid").await
}

async fn hosts_with_tls(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (own, wild) = (Certificate::of(&["own.example.com"])?, Certificate::of(&["*.example.com"])?);
    world.write("secrets.yaml", documents(&[own.secret("vault", "own"), wild.secret("shop", "wild")]))?;
    let host = |name: &str, fqdn: &str, secret: &str| {
        let spec = format!(
            "virtualhost: {{fqdn: \"{fqdn}\", tls: {{secretName: {secret}}}}}\nroutes:\n- services: [{{name: echo, port: 8080}}]\n- conditions: [{{prefix: /open}}]\n  permitInsecure: true\n  services: [{{name: echo, port: 8080}}]"
        );
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
    };
    host("own", "own.example.com", "vault/own")?;
    host("wild", "*.example.com", "wild")?;
    host("missing", "missing.example.com", "nobody")?;
    let served = serve(&world).await?;
    let secure = |name: &str, certificate: &Certificate| get(served.https, "/").host(name).tls(certificate.trust(name));
    secure("any.example.com", &wild).comes_to_reach("echo").await?;
    // Nobody has delegated the certificate: the wildcard does not step in.
    let refused = |ask: Ask| async move {
        ensure!(ask.send().await.is_err(), "{} is answered", ask.line());
        Ok(())
    };
    refused(secure("own.example.com", &wild)).await?;
    refused(secure("missing.example.com", &wild)).await?;
    for name in ["own.example.com", "missing.example.com"] {
        served.get(name, "/open").answers(500).await?;
    }
    let delegation = "apiVersion: projectcontour.io/v1\nkind: TLSCertificateDelegation\nmetadata: {name: d, namespace: vault}\nspec: {delegations: [{secretName: own, targetNamespaces: [shop]}]}\n";
    world.write("delegation.yaml", delegation)?;
    secure("own.example.com", &own).comes_to_reach("echo").await?;
    secure("own.example.com", &own).http2().comes_to_reach("echo").await?;
    let reply = served.get("own.example.com", "/a").comes_to_answer(301).await?;
    let wanted = format!("https://own.example.com:{}/a", served.https);
    ensure!(reply.header("location") == wanted, "{}", reply.header("location"));
    served.get("own.example.com", "/open").comes_to_reach("echo").await?;
    // A connection is for one host only.
    let mut connection = secure("own.example.com", &own).connect().await?;
    let other = get(served.https, "/").host("any.example.com").send_on(&mut connection).await?;
    ensure!(other.status.as_u16() == 421, "{}", other.status);
    // Revoked, it closes again.
    world.delete("delegation.yaml")?;
    served.get("own.example.com", "/open").comes_to_answer(500).await?;
    until("connections are refused", || async { refused(secure("own.example.com", &own)).await }).await?;
    secure("any.example.com", &wild).reaches("echo").await?;
    Ok(())
}

async fn a_broken_child_beside_a_good_one(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let root = "virtualhost: {fqdn: example.com}
includes:
- {name: good, conditions: [{prefix: /good}]}
- {name: bad, conditions: [{prefix: /bad}]}
routes:
- services: [{name: echo, port: 8080}]";
    let fine = "routes:\n- services: [{name: echo, port: 8080}]";
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("good.yaml", proxy("shop", "good", fine))?;
    world.write("bad.yaml", proxy("shop", "bad", fine))?;
    let served = serve(&world).await?;
    served.get("example.com", "/bad/x").comes_to_reach("echo").await?;
    let hammer = Hammer::start([served.get("example.com", "/good/x"), served.get("example.com", "/other")]);
    let bad = "routes:
- services: [{name: nobody, port: 8080}]
- conditions: [{regex: '/[regex'}]
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /timeout}]
  timeoutPolicy: {response: soon}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /fine}]
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /token}]
  jwtVerificationPolicy: {require: nobody}
  services: [{name: echo, port: 8080}]";
    world.write("bad.yaml", proxy("shop", "bad", bad))?;
    served.get("example.com", "/bad/x").comes_to_answer(503).await?;
    served.get("example.com", "/bad/timeout/x").answers(404).await?;
    served.get("example.com", "/bad/token").answers(404).await?;
    served.get("example.com", "/bad/fine").reaches("echo").await?;
    served.comes_to_be("shop", "bad", "invalid").await?;
    served.comes_to_be("shop", "root", "valid").await?;
    world.write("bad.yaml", proxy("shop", "bad", fine))?;
    served.get("example.com", "/bad/x").comes_to_reach("echo").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
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

async fn addresses_that_may_not_come_in(world: World) -> Result<()> {
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
    // What cannot be read shuts the host, it does not open it.
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
