//! HTTPProxies at the listeners of a Gateway, beside its routes.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::holdfast::{Holdfast, HoldfastOptions};
use holdfast_scenario_tests::manifests::{documents, http_listener, https_listener, route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{ServedProxies, proxy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::gateway",
        true,
        [
            beside_the_routes_of_a_gateway,
            a_host_comes_from_one_api,
            the_certificate_of_the_gateway_is_broken,
            the_certificate_of_the_gateway_is_broken_with_a_last_valid_version,
            a_port_of_the_gateway_is_in_use
        ]
    )
}

async fn serve(world: &World) -> Result<ServedProxies> {
    serve_with(world, &[]).await
}

async fn serve_with(world: &World, flags: &[&str]) -> Result<ServedProxies> {
    let (http, https) = (world.port()?, world.port()?);
    let listeners = http_listener(http) + &https_listener("https", https, "*.example.com", &["wild"]);
    world.gateway_with(&listeners)?;
    let options = HoldfastOptions::new(world)?.args(&["--httpproxy-gateway", "default/public"]).args(flags);
    Ok(ServedProxies { http, https, holdfast: world.run_with(options).await? })
}

/// Returns a root that forwards all requests to the echo backend; its creation time decides precedence.
fn root(name: &str, fqdn: &str, tls: &str, created: &str) -> String {
    let spec = format!("virtualhost: {{fqdn: \"{fqdn}\"{tls}}}\nroutes:\n- services: [{{name: proxied, port: 8080}}]");
    proxy("shop", name, &spec).replace("namespace: shop", &format!("namespace: shop, creationTimestamp: \"{created}\""))
}

fn http_route(name: &str, host: &str, created: &str) -> String {
    let spec = format!("hostnames: [\"{host}\"]\nrules:\n- backendRefs: [{{name: routed, port: 8080}}]\n");
    let parents = "- {name: public, namespace: default}\n";
    let route = route("HTTPRoute", "shop", name, parents, &spec);
    route.replacen("metadata:\n", &format!("metadata:\n  creationTimestamp: \"{created}\"\n"), 1)
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

async fn beside_the_routes_of_a_gateway(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "proxied", None).await?, world.backend_in("shop", "routed", None).await?);
    let (wild, own) = (Certificate::of(&["*.example.com"])?, Certificate::of(&["own.example.com"])?);
    world.write("secrets.yaml", documents(&[wild.secret("default", "wild"), own.secret("shop", "own")]))?;
    world.write("route.yaml", http_route("route", "*.example.com", EARLY))?;
    let served = serve(&world).await?;
    let secure = |name: &str, certificate: &Certificate| get(served.https, "/").host(name).tls(certificate.trust(name));
    served.get("own.example.com", "/").comes_to_reach("routed").await?;
    secure("own.example.com", &wild).comes_to_reach("routed").await?;
    let neighbours = [served.get("other.example.com", "/"), secure("other.example.com", &wild)];
    let hammer = Hammer::start(neighbours);
    // A separate host within the wildcard, with a separate certificate.
    world.write("own.yaml", root("own", "own.example.com", OWN, LATE))?;
    secure("own.example.com", &own).comes_to_reach("proxied").await?;
    served.get("own.example.com", "/a").comes_to_answer(301).await?;
    served.comes_to_be("shop", "own", "valid").await?;
    // A connection is valid for the hosts of one API only.
    let mut connection = secure("other.example.com", &wild).connect().await?;
    let strange = get(served.https, "/").host("own.example.com").send_on(&mut connection).await?;
    ensure!(strange.status.as_u16() == 421, "{}", strange.status);
    // Without its certificate the host refuses connections, and the wildcard does not answer for it.
    world.write("secrets.yaml", wild.secret("default", "wild"))?;
    served.get("own.example.com", "/a").comes_to_answer(500).await?;
    let refused = |request: HttpRequest| async move {
        ensure!(request.send().await.is_err(), "{} is answered", request.line());
        Ok(())
    };
    until("connections are refused", || refused(secure("own.example.com", &wild))).await?;
    world.delete("own.yaml")?;
    served.get("own.example.com", "/").comes_to_reach("routed").await?;
    secure("own.example.com", &wild).comes_to_reach("routed").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

async fn a_host_comes_from_one_api(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "proxied", None).await?, world.backend_in("shop", "routed", None).await?);
    let wild = Certificate::of(&["*.example.com"])?;
    world.write("secrets.yaml", documents(&[wild.secret("default", "wild"), wild.secret("shop", "wild")]))?;
    world.write("proxy.yaml", root("first", "first.example.com", "", EARLY))?;
    world.write("route.yaml", http_route("second", "second.example.com", EARLY))?;
    let served = serve(&world).await?;
    served.get("first.example.com", "/").comes_to_reach("proxied").await?;
    served.get("second.example.com", "/").comes_to_reach("routed").await?;
    let hammer = Hammer::start([served.get("first.example.com", "/"), served.get("second.example.com", "/")]);
    // A newer object does not take over a host.
    world.write("late-route.yaml", http_route("late", "first.example.com", LATE))?;
    world.write("late-proxy.yaml", root("late", "second.example.com", ", tls: {secretName: wild}", LATE))?;
    served.comes_to_be("shop", "late", "invalid").await?;
    let status = served.status("shop", "late").await?;
    let error = &status["conditions"][0]["errors"][0];
    ensure!(error["type"] == "VirtualHostError" && error["reason"] == "HostnameConflict", "{status}");
    served.get("first.example.com", "/").reaches("proxied").await?;
    let second = get(served.https, "/").host("second.example.com").tls(wild.trust("second.example.com"));
    second.comes_to_reach("routed").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    // When the older object is deleted, the newer one gets the host.
    world.delete("route.yaml")?;
    world.delete("proxy.yaml")?;
    served.get("first.example.com", "/").comes_to_reach("routed").await?;
    served.get("second.example.com", "/a").comes_to_answer(301).await?;
    second.comes_to_reach("proxied").await?;
    served.comes_to_be("shop", "late", "valid").await
}

async fn the_certificate_of_the_gateway_is_broken(world: World) -> Result<()> {
    beside_a_broken_certificate(&world, &[], false).await
}

async fn the_certificate_of_the_gateway_is_broken_with_a_last_valid_version(world: World) -> Result<()> {
    beside_a_broken_certificate(&world, &LAST_VALID, true).await
}

/// The certificate that the HTTPProxy names.
const OWN: &str = ", tls: {secretName: own}";

/// The flags of a Holdfast that serves last valid versions.
const LAST_VALID: [&str; 3] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true"];

/// An HTTPProxy with a certificate of its own is served, whatever becomes of the certificate of the Gateway's listener.
async fn beside_a_broken_certificate(world: &World, flags: &[&str], is_lasting: bool) -> Result<()> {
    let _backends = (world.backend_in("shop", "proxied", None).await?, world.backend_in("shop", "routed", None).await?);
    let (wild, own) = (Certificate::of(&["*.example.com"])?, Certificate::of(&["own.example.com"])?);
    world.write("wild.yaml", wild.secret("default", "wild"))?;
    world.write("own.yaml", documents(&[own.secret("shop", "own"), root("own", "own.example.com", OWN, LATE)]))?;
    world.write("route.yaml", http_route("route", "*.example.com", EARLY))?;
    let mut served = serve_with(world, flags).await?;
    let secure = |name: &str, certificate: &Certificate| get(served.https, "/").host(name).tls(certificate.trust(name));
    let (proxied, routed) = (secure("own.example.com", &own), secure("other.example.com", &wild));
    proxied.comes_to_reach("proxied").await?;
    routed.comes_to_reach("routed").await?;
    let hammer = Hammer::start([proxied.clone(), served.get("own.example.com", "/")]);
    // The key belongs to another certificate.
    let mixed = wild
        .secret("default", "wild")
        .lines()
        .zip(own.secret("default", "wild").lines())
        .fold(String::new(), |all, (of_wild, of_own)| {
            all + if of_wild.trim().starts_with("tls.key") { of_own } else { of_wild } + "\n"
        });
    world.write("wild.yaml", mixed)?;
    until("the Secret is reported, and the HTTPProxy is not", || async {
        let health = served.holdfast.diagnostics("/debug/health").await?.to_string();
        let names = |object: &str| health.contains(object);
        ensure!(names("Secret") && !names("HTTPProxy"), "{health}");
        Ok(())
    })
    .await?;
    if is_lasting {
        routed.reaches("routed").await?;
    } else {
        let refused = || async { routed.send().await.is_err().then_some(()).context("the listener answers") };
        until("connections are refused", refused).await?;
    }
    served.comes_to_be("shop", "own", "valid").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok() || matches!(shot, Shot::Answer { status: 301, .. })).await?;
    let (http, https) = (served.http, served.https);
    let options = served.holdfast.kill()?;
    served = ServedProxies { http, https, holdfast: world.run_with(options).await? };
    served.get("own.example.com", "/").comes_to_answer(301).await?;
    proxied.comes_to_reach("proxied").await?;
    served.comes_to_be("shop", "own", "valid").await
}

/// An HTTPProxy is served at the port that is free, and its objects are not blamed for the port in use.
async fn a_port_of_the_gateway_is_in_use(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "proxied", None).await?, world.backend_in("shop", "routed", None).await?);
    let (wild, own) = (Certificate::of(&["*.example.com"])?, Certificate::of(&["own.example.com"])?);
    world.write("wild.yaml", wild.secret("default", "wild"))?;
    world.write("own.yaml", documents(&[own.secret("shop", "own"), root("own", "own.example.com", OWN, LATE)]))?;
    world.write("plain.yaml", root("plain", "plain.example.com", "", LATE))?;
    let (http, https) = (world.port()?, world.port()?);
    let holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, http))?;
    world.gateway_with(&(http_listener(http) + &https_listener("https", https, "*.example.com", &["wild"])))?;
    let options = HoldfastOptions::new(&world)?.args(&["--httpproxy-gateway", "default/public"]);
    let served = ServedProxies { http, https, holdfast: Holdfast::start(&world, options)? };
    let secure = get(https, "/").host("own.example.com").tls(own.trust("own.example.com"));
    secure.comes_to_reach("proxied").await?;
    until("the Gateway is at fault, and both HTTPProxies are affected", || async {
        let health = served.holdfast.diagnostics("/debug/health").await?;
        let finding = &health["outages"][0];
        ensure!(health["outages"][1].is_null() && health["warnings"][0].is_null(), "{health}");
        ensure!(finding["objects"][0]["kind"] == "Gateway" && finding["objects"][1].is_null(), "{finding}");
        let affected = |name: &str| {
            let all = finding["served"].as_array().into_iter().flatten();
            all.filter(|served| served["name"] == name && served["gets"]["kind"] == "portInUse").count()
        };
        ensure!(affected("own") == 1 && affected("plain") == 1, "{finding}");
        Ok(())
    })
    .await?;
    drop(holder);
    served.get("own.example.com", "/").comes_to_answer(301).await?;
    served.get("plain.example.com", "/").comes_to_reach("proxied").await?;
    served.comes_to_be("shop", "own", "valid").await?;
    served.comes_to_be("shop", "plain", "valid").await?;
    secure.reaches("proxied").await.map(drop)
}
