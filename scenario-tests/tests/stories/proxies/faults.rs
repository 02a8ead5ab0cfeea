//! Faults of one route, include, certificate or policy: other routes are served under continuous load, and guarded
//! routes are never open.
//!
//! Envoys have Envoy's default limit of RE2 program size, so that they refuse a common regular expression that
//! translation accepts.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, connected, small_binary};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::holdfast::HoldfastOptions;
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{ServedProxies, proxy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::faults",
        true,
        [
            one_bad_route_also_after_a_crash,
            one_bad_route_is_replaced,
            one_bad_route_with_a_probe,
            one_leaf_of_two_roots,
            one_bad_include,
            one_bad_certificate,
            one_bad_policy,
            the_last_root_is_deleted,
        ]
    )
}

/// Larger than Envoy's default limit, and smaller than Holdfast's; matches `a-b`.
const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";
const BACKFILL: [&str; 4] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true", "--probe=off"];
const REPLACE: [&str; 3] = ["--feature-gates", "FallbackConfiguration=true", "--probe=off"];
const PROBED: [&str; 4] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true", "--probe=on"];

/// Returns a route; its responses contain the version.
fn route(kind: &str, path: &str, version: u32, more: &str) -> String {
    format!(
        "- conditions: [{{{kind}: '{path}'}}]\n  responseHeadersPolicy: {{set: [{{name: x-version, value: '{version}'}}]}}\n  \
         services: [{{name: echo, port: 8080}}]\n{more}"
    )
}

fn good(path: &str, version: u32) -> String {
    route("prefix", path, version, "")
}

/// Returns a route that translation accepts and a small Envoy refuses.
fn refused(path: &str, version: u32) -> String {
    route("regex", &format!("{path}/{LARGE}"), version, "")
}

fn child(world: &World, name: &str, routes: &[String]) -> Result<()> {
    world.write(&format!("{name}.yaml"), proxy("shop", name, &format!("routes:\n{}", routes.concat())))
}

/// Writes a root with these includes (name and prefix) and one route for everything else.
fn root(world: &World, name: &str, includes: &[(&str, &str)], version: u32) -> Result<()> {
    let includes =
        includes.iter().map(|(name, prefix)| format!("- {{name: {name}, conditions: [{{prefix: {prefix}}}]}}\n"));
    let includes: String = includes.collect();
    let spec =
        format!("virtualhost: {{fqdn: {name}.example.com}}\nincludes:\n{includes}routes:\n{}", good("/", version));
    world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
}

fn options(world: &World, flags: &[&str]) -> Result<(HoldfastOptions, u16, u16)> {
    let (http, https) = (world.port()?, world.port()?);
    let (first, second) = (http.to_string(), https.to_string());
    let ports = ["--httpproxy-http", &first, "--httpproxy-https", &second];
    Ok((HoldfastOptions::new(world)?.args(&[&ports, flags].concat()), http, https))
}

/// Starts Holdfast with a managed Envoy with the small limit.
async fn serve(world: &World, flags: &[&str]) -> Result<ServedProxies> {
    let (options, http, https) = options(world, flags)?;
    let binary = small_binary(world)?.display().to_string();
    Ok(ServedProxies { http, https, holdfast: world.run_with(options.env("ENVOY_BIN", &binary)).await? })
}

fn request(port: u16, host: &str, path: &str) -> HttpRequest {
    get(port, path).host(&format!("{host}.example.com"))
}

async fn comes_to_serve(request: HttpRequest, version: u32) -> Result<()> {
    let version = version.to_string();
    request
        .comes_to(&format!("served in version {version}"), |reply| reply.header("x-version") == version)
        .await
        .map(drop)
}

async fn serves(request: HttpRequest, version: u32) -> Result<()> {
    let served = request.answers(200).await?.header("x-version");
    ensure!(served == version.to_string(), "{} is served in version {served} instead of {version}", request.line());
    Ok(())
}

async fn one_bad_route_also_after_a_crash(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[("cart", "/cart"), ("stock", "/stock")], 1)?;
    root(&world, "other", &[], 1)?;
    child(&world, "cart", &[good("/a", 1), good("/b", 1)])?;
    child(&world, "stock", &[good("/", 1)])?;
    let (options, http, _) = options(&world, &BACKFILL)?;
    let options = options.without_envoy();
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy { gateway: "holdfast/httpproxy", ..FleetEnvoy::small("one") };
    let envoy = envoy.start(&world, &options).await?;
    let paths = [("root", "/"), ("root", "/cart/a/a-b"), ("root", "/cart/b"), ("root", "/stock"), ("other", "/")];
    for (host, path) in paths {
        comes_to_serve(request(http, host, path), 1).await?;
    }
    let load = Hammer::start(paths.map(|(host, path)| request(http, host, path)));

    child(&world, "cart", &[refused("/a", 2), good("/b", 1)])?;
    until("the Envoy refuses", || async {
        ensure!(envoy.refusals().await? >= 1, "nothing");
        Ok(())
    })
    .await?;
    // Edits of its root, its siblings and other hosts take effect.
    child(&world, "stock", &[good("/", 2)])?;
    root(&world, "root", &[("cart", "/cart"), ("stock", "/stock")], 2)?;
    root(&world, "other", &[], 2)?;
    for (host, path) in [("root", "/"), ("root", "/stock"), ("other", "/")] {
        comes_to_serve(request(http, host, path), 2).await?;
    }
    serves(request(http, "root", "/cart/a/a-b"), 1).await?;
    serves(request(http, "root", "/cart/b"), 1).await?;
    let before = envoy.refusals().await?;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(report["brokenObjects"][0]["field"] == "spec.routes[0]", "{report}");
    ensure!(report["backfilledObjects"][0]["name"] == "cart", "{report}");
    // Answers of an Envoy are ordered: when this version is stored, the earlier edits are.
    root(&world, "other", &[], 3)?;
    comes_to_serve(request(http, "other", "/"), 3).await?;
    let other = "projectcontour.io/HTTPProxy:shop/other";
    holdfast.comes_to_store(other, holdfast.generation(other).await?).await?;

    // After a crash the content is not sent to the Envoy again.
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    child(&world, "stock", &[good("/", 3)])?;
    comes_to_serve(request(http, "root", "/stock"), 3).await?;
    serves(request(http, "root", "/cart/a/a-b"), 1).await?;
    load.stop_expecting(Shot::is_ok).await?;
    ensure!(envoy.refusals().await? == before, "it was asked again");

    // Deleted while it is broken, the proxy is gone; created again, it is served.
    let load = Hammer::start(
        [("root", "/"), ("root", "/stock"), ("other", "/")].map(|(host, path)| request(http, host, path)),
    );
    world.delete("cart.yaml")?;
    request(http, "root", "/cart/b").comes_to_answer(502).await?;
    request(http, "root", "/cart/a/a-b").answers(502).await?;
    child(&world, "cart", &[good("/a", 6), good("/b", 6)])?;
    comes_to_serve(request(http, "root", "/cart/a/a-b"), 6).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn one_bad_route_is_replaced(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[("cart", "/cart")], 1)?;
    child(&world, "cart", &[good("/a", 1), good("/b", 1)])?;
    let served = serve(&world, &REPLACE).await?;
    let http = served.http;
    let paths = ["/", "/cart/b"];
    for path in paths {
        comes_to_serve(request(http, "root", path), 1).await?;
    }
    let load = Hammer::start(paths.map(|path| request(http, "root", path)));
    child(&world, "cart", &[refused("/a", 2), good("/b", 1)])?;
    request(http, "root", "/cart/a/a-b").comes_to_answer(404).await?;
    serves(request(http, "root", "/cart/b"), 1).await?;
    until("the status says so", || async {
        let status = served.status("shop", "cart").await?;
        ensure!(status["currentStatus"] == "invalid" && status.to_string().contains("RefusedByEnvoy"), "{status}");
        ensure!(status.to_string().contains("holdfast.dev/Fallback"), "{status}");
        let root = served.status("shop", "root").await?;
        ensure!(root["currentStatus"] == "valid", "{root}");
        Ok(())
    })
    .await?;
    child(&world, "cart", &[good("/a", 3), good("/b", 3)])?;
    comes_to_serve(request(http, "root", "/cart/a/a-b"), 3).await?;
    load.stop_expecting(Shot::is_ok).await?;
    served.comes_to_be("shop", "cart", "valid").await
}

async fn one_bad_route_with_a_probe(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[("cart", "/cart"), ("stock", "/stock")], 1)?;
    child(&world, "cart", &[good("/a", 1), good("/b", 1)])?;
    child(&world, "stock", &[good("/", 1)])?;
    let served = serve(&world, &PROBED).await?;
    let http = served.http;
    let paths = ["/", "/cart/a/a-b", "/cart/b", "/stock"];
    for path in paths {
        comes_to_serve(request(http, "root", path), 1).await?;
    }
    let load = Hammer::start(paths.map(|path| request(http, "root", path)));
    child(&world, "cart", &[refused("/a", 2), good("/b", 2)])?;
    child(&world, "stock", &[good("/", 2)])?;
    comes_to_serve(request(http, "root", "/stock"), 2).await?;
    until("the probe has told", || async {
        let report = served.holdfast.diagnostics("/debug/config/fallback").await?;
        let broken = &report["brokenObjects"][0];
        ensure!(broken["name"] == "cart" && broken["detectedBy"] == "probe", "{report}");
        Ok(())
    })
    .await?;
    serves(request(http, "root", "/cart/b"), 1).await?;
    let nacks = served.holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");
    child(&world, "cart", &[good("/a", 3), good("/b", 3)])?;
    comes_to_serve(request(http, "root", "/cart/b"), 3).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn one_leaf_of_two_roots(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "one", &[("leaf", "/leaf")], 1)?;
    root(&world, "two", &[("leaf", "/deep")], 1)?;
    child(&world, "leaf", &[good("/a", 1)])?;
    let served = serve(&world, &BACKFILL).await?;
    let http = served.http;
    let paths = [("one", "/"), ("two", "/"), ("one", "/leaf/a/a-b"), ("two", "/deep/a/a-b")];
    for (host, path) in paths {
        comes_to_serve(request(http, host, path), 1).await?;
    }
    let load = Hammer::start(paths.map(|(host, path)| request(http, host, path)));
    child(&world, "leaf", &[refused("/a", 2)])?;
    root(&world, "one", &[("leaf", "/leaf")], 2)?;
    comes_to_serve(request(http, "one", "/"), 2).await?;
    until("the leaf is blamed", || async {
        let report = served.holdfast.diagnostics("/debug/config/fallback").await?;
        ensure!(report["backfilledObjects"][0]["name"] == "leaf", "{report}");
        Ok(())
    })
    .await?;
    serves(request(http, "one", "/leaf/a/a-b"), 1).await?;
    serves(request(http, "two", "/deep/a/a-b"), 1).await?;
    child(&world, "leaf", &[good("/a", 3)])?;
    for (host, path) in [("one", "/leaf/a/a-b"), ("two", "/deep/a/a-b")] {
        comes_to_serve(request(http, host, path), 3).await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A dangling include, two levels deep, is answered for its whole prefix; the path of that name of another team is
/// served.
async fn one_bad_include(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[("team", "/team-a"), ("stock", "/team-b")], 1)?;
    let team = |included: &str, version: u32| {
        let spec = format!(
            "includes:\n- {{name: {included}, conditions: [{{prefix: /team-b}}]}}\nroutes:\n{}",
            good("/own", version)
        );
        world.write("team.yaml", proxy("shop", "team", &spec))
    };
    team("deep", 1)?;
    child(&world, "stock", &[good("/", 1)])?;
    child(&world, "deep", &[good("/", 1)])?;
    let served = serve(&world, &BACKFILL).await?;
    let http = served.http;
    let neighbours = ["/", "/team-a/own", "/team-b"];
    for path in [&neighbours[..], &["/team-a/team-b/x"]].concat() {
        comes_to_serve(request(http, "root", path), 1).await?;
    }
    let load = Hammer::start(neighbours.map(|path| request(http, "root", path)));
    team("nobody", 2)?;
    request(http, "root", "/team-a/team-b/x").comes_to_answer(502).await?;
    request(http, "root", "/team-a/team-b").answers(502).await?;
    // The other routes of its proxy are served in their current version.
    comes_to_serve(request(http, "root", "/team-a/own"), 2).await?;
    serves(request(http, "root", "/team-b"), 1).await?;
    let exact = format!("includes:\n- {{name: deep, conditions: [{{exact: /team-b}}]}}\nroutes:\n{}", good("/own", 3));
    world.write("team.yaml", proxy("shop", "team", &exact))?;
    comes_to_serve(request(http, "root", "/team-a/own"), 3).await?;
    request(http, "root", "/team-a/team-b/x").answers(502).await?;
    team("deep", 4)?;
    comes_to_serve(request(http, "root", "/team-a/team-b/x"), 1).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A certificate with the key of another one is found before any Envoy receives it.
async fn one_bad_certificate(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let [one, two, wild, other] =
        ["one", "two", "*", "other"].map(|name| Certificate::of(&[&format!("{name}.example.com")]));
    let (one, two, wild, other) = (one?, two?, wild?, other?);
    let host = |name: &str, fqdn: &str| {
        let spec = format!("virtualhost: {{fqdn: \"{fqdn}\", tls: {{secretName: {name}}}}}\nroutes:\n{}", good("/", 1));
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
    };
    for (name, fqdn) in [("one", "one.example.com"), ("wild", "*.example.com"), ("other", "other.example.com")] {
        host(name, fqdn)?;
    }
    let secrets = |text: String| {
        world.write("secrets.yaml", documents(&[text, wild.secret("shop", "wild"), other.secret("shop", "other")]))
    };
    secrets(one.secret("shop", "one"))?;
    let served = serve(&world, &BACKFILL).await?;
    let secure = |name: &str, certificate: &Certificate| get(served.https, "/").host(name).tls(certificate.trust(name));
    secure("one.example.com", &one).comes_to_reach("echo").await?;
    secure("other.example.com", &other).comes_to_reach("echo").await?;
    let load = Hammer::start([secure("one.example.com", &one), secure("other.example.com", &other)]);
    let mixed = Certificate { key_pem: two.key_pem.clone(), ..one.clone() };
    secrets(mixed.secret("shop", "one"))?;
    until("it is told", || async {
        let report = served.holdfast.diagnostics("/debug/config/fallback").await?;
        ensure!(report["backfilledObjects"][0]["kind"] == "Secret", "{report}");
        Ok(())
    })
    .await?;
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await?;
    let nacks = served.holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks == 0.0, "{nacks} refusals by Envoys");
    // Without its Secret the host is closed: neither the wildcard nor the port without TLS answers for it.
    let load = Hammer::start([secure("other.example.com", &other), secure("any.example.com", &wild)]);
    world.write("secrets.yaml", documents(&[wild.secret("shop", "wild"), other.secret("shop", "other")]))?;
    served.get("one.example.com", "/").comes_to_answer(500).await?;
    until("connections are refused", || async {
        for certificate in [&one, &wild] {
            let request = secure("one.example.com", certificate);
            ensure!(request.send().await.is_err(), "{} is answered", request.line());
        }
        Ok(())
    })
    .await?;
    secrets(one.secret("shop", "one"))?;
    secure("one.example.com", &one).comes_to_reach("echo").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Whatever is broken, and in whatever order it is edited: no unauthorized request reaches a Service.
async fn one_bad_policy(world: World) -> Result<()> {
    let echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[("cart", "/cart")], 1)?;
    let shut = "  ipAllowPolicy: [{source: Peer, cidr: 10.0.0.0/8}]\n";
    let half = "  ipAllowPolicy: [{source: Peer, cidr: 10.0.0.0/8}, {source: Peer, cidr: 10.0.0}]\n";
    let open = |version: u32| good("/open", version);
    let admin = |version: u32, guard: &str| route("prefix", "/admin", version, guard);
    child(&world, "cart", &[open(1), admin(1, shut)])?;
    let served = serve(&world, &BACKFILL).await?;
    let http = served.http;
    comes_to_serve(request(http, "root", "/cart/open"), 1).await?;
    request(http, "root", "/cart/admin").answers(403).await?;
    let load = Hammer::start(["/", "/cart/open"].map(|path| request(http, "root", path)));
    let barred = Hammer::start([request(http, "root", "/cart/admin/a-b")]);
    // The other route does not change: a route that changes together with a refused one is a suspect too, for a while.
    let steps = [
        // An invalid address beside a valid one.
        [open(1), admin(2, half)],
        [open(1), admin(3, shut)],
        // Envoy refuses the guarded route.
        [open(1), route("regex", &format!("/admin/{LARGE}"), 4, shut)],
        [open(1), admin(5, shut)],
        // A token of an unknown provider is required.
        [open(1), admin(6, "  jwtVerificationPolicy: {require: nobody}\n")],
        // The guard cannot be decoded.
        [open(1), admin(7, "  ipAllowPolicy: 10.0.0.0/8\n")],
        [open(1), admin(8, shut)],
    ];
    for (step, routes) in steps.iter().enumerate() {
        child(&world, "cart", routes)?;
        // The version of the root shows that the earlier writes have been processed.
        let version = u32::try_from(step)? + 2;
        root(&world, "root", &[("cart", "/cart")], version)?;
        comes_to_serve(request(http, "root", "/"), version).await?;
        barred.goes_on(20).await?;
    }
    serves(request(http, "root", "/cart/open"), 1).await?;
    request(http, "root", "/cart/admin").comes_to_answer(403).await?;
    load.stop_expecting(Shot::is_ok).await?;
    let is_barred = |shot: &Shot| matches!(shot, Shot::Answer { status: 403 | 404 | 429, pod, .. } if pod.is_empty());
    barred.stop_expecting(is_barred).await?;
    let entered = echo.count(|seen| seen.request.path.starts_with("/cart/admin"));
    ensure!(entered == 0, "{entered} requests came through");
    Ok(())
}

async fn the_last_root_is_deleted(world: World) -> Result<()> {
    let echo = world.backend_in("shop", "echo", None).await?;
    root(&world, "root", &[], 1)?;
    let served = serve(&world, &BACKFILL).await?;
    comes_to_serve(request(served.http, "root", "/"), 1).await?;
    world.delete("root.yaml")?;
    until("nothing is served any more", || async {
        let before = echo.received();
        let answer = request(served.http, "root", "/").send().await;
        ensure!(!answer.is_ok_and(|reply| reply.status.as_u16() == 200), "it is served still");
        ensure!(echo.received() == before, "it came through");
        Ok(())
    })
    .await?;
    root(&world, "root", &[], 2)?;
    comes_to_serve(request(served.http, "root", "/"), 2).await
}
