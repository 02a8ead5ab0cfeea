//! Backend configuration: a version that cannot be served is backfilled if the earlier version protects as much, also
//! beside a route that is refused in the same edit; nothing is sent without the required TLS.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::tls::StoryAuthority;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories};

use super::{BACKFILL, LARGE, REPLACE, SAMPLE, comes_to_blame, comes_to_find, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::backends",
        true,
        [
            a_cipher_beside_a_refused_rule,
            a_cipher_without_last_valid_versions,
            hosts_that_cannot_be_served,
            authorities_are_those_of_today,
        ]
    )
}

/// Number of requests that are sent once something is closed.
const AGAIN: usize = 20;
/// The name in the certificate of the backend.
const NAME: &str = "shop.clients.example.com";

/// Returns a rule for `/cart` to the Service `secured`.
fn cart(version: &str, is_refused: bool) -> String {
    let (kind, path) =
        if is_refused { ("RegularExpression", format!("/cart/{LARGE}")) } else { ("PathPrefix", "/cart".into()) };
    format!(
        "rules:\n- matches: [{{path: {{type: {kind}, value: '{path}'}}}}]\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}\n  \
         backendRefs: [{{name: secured, port: 8080}}]\n"
    )
}

fn tls(more: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
         metadata: {{name: config, namespace: default}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: secured}}], tls: {{insecureSkipVerify: true{more}}}}}\n"
    )
}

const UNKNOWN: &str = ", parameters: {cipherSuites: [NO-SUCH-CIPHER]}";

fn request(port: u16) -> HttpRequest {
    get(port, &format!("/cart/{SAMPLE}"))
}

/// Starts the Service `secured`: a server with a certificate of the authority, which closes connections without TLS.
async fn secured(world: &World, authority: &StoryAuthority) -> Result<(Secured, Echo)> {
    let echo = world.pod("default", "secured", "secured").await?;
    let secured = Secured::start(&authority.client("shop", 1)?, None, echo.address()).await?;
    world.write("secured.yaml", manifests::service("default", "secured", None, &[secured.address]))?;
    Ok((secured, echo))
}

async fn comes_to(port: u16, version: &str) -> Result<()> {
    request(port).comes_to(version, |reply| reply.header("x-version") == version).await?.from_pod("secured")
}

/// A policy of the backend and a rule that uses it are both refused in one edit: both are backfilled.
async fn a_cipher_beside_a_refused_rule(world: World) -> Result<()> {
    let (secured, _echo) = secured(&world, &StoryAuthority::new("backends")?).await?;
    let port = world.gateway()?;
    let write = |more: &str, route: &str| world.write("batch.yaml", documents(&[tls(more), http_route("cart", route)]));
    write("", &cart("1", false))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to(port, "1").await?;
    let load = Hammer::start([request(port)]);
    write(UNKNOWN, &cart("2", true))?;
    comes_to_find(&holdfast, &[("cart", "nack"), ("config", "nack")]).await?;
    request(port).reaches("secured").await?;
    // Each is corrected separately. The route was last acknowledged with the earlier policy, and is backfilled with it.
    write(UNKNOWN, &cart("3", false))?;
    comes_to_find(&holdfast, &[("config", "nack")]).await?;
    request(port).reaches("secured").await?;
    write("", &cart("4", true))?;
    comes_to_find(&holdfast, &[("cart", "nack")]).await?;
    request(port).reaches("secured").await?;
    write("", &cart("5", false))?;
    comes_to(port, "5").await?;
    comes_to_find(&holdfast, &[]).await?;
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// With the gate only, the rules that use the backend are closed, other rules are served, and the closed ones recover.
async fn a_cipher_without_last_valid_versions(world: World) -> Result<()> {
    let _other = world.backend("echo").await?;
    let (secured, _echo) = secured(&world, &StoryAuthority::new("backends")?).await?;
    let port = world.gateway()?;
    world.write("config.yaml", tls(""))?;
    world.route("cart", &cart("1", false))?;
    world.route("other", "rules:\n- matches: [{path: {value: /other}}]\n  backendRefs: [{name: echo, port: 8080}]")?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to(port, "1").await?;
    get(port, "/other").comes_to_reach("echo").await?;
    let neighbour = Hammer::start([get(port, "/other")]);
    world.write("config.yaml", tls(UNKNOWN))?;
    comes_to_blame(&holdfast, "nack", ["config"]).await?;
    for _ in 0..AGAIN {
        request(port).comes_to_answer(404).await?;
    }
    world.write("config.yaml", tls(", sni: shop.test"))?;
    comes_to(port, "1").await?;
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    neighbour.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A Backend with an invalid port: requests continue to the previous hosts.
async fn hosts_that_cannot_be_served(world: World) -> Result<()> {
    let (one, two) = (world.pod("default", "one", "one").await?, world.pod("default", "two", "two").await?);
    let hosts = |port: u32| {
        world.write(
            "backend.yaml",
            format!(
                "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: Backend\nmetadata: {{name: hosts, namespace: default}}\n\
                 spec: {{static: {{hosts: [{{host: 127.0.0.1, port: {port}}}]}}}}\n"
            ),
        )
    };
    hosts(one.address().port().into())?;
    let port = world.gateway()?;
    world.route("r", "rules:\n- backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: hosts}]")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let request = get(port, "/");
    request.comes_to_reach("one").await?;
    let load = Hammer::start([request.clone()]);
    hosts(70_000)?;
    world.route("later", "rules:\n- matches: [{path: {value: /later}}]\n  backendRefs: [{name: none, port: 80}]")?;
    get(port, "/later").comes_to_answer(500).await?;
    for _ in 0..AGAIN {
        request.reaches("one").await?;
    }
    comes_to_blame(&holdfast, "translation", ["hosts"]).await?;
    world.delete("route-later.yaml")?;
    hosts(two.address().port().into())?;
    request.comes_to_reach("two").await?;
    comes_to_blame(&holdfast, "", []).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A BackendTLSPolicy sets the trusted CA certificates: no earlier version is served, and nothing is sent without TLS.
async fn authorities_are_those_of_today(world: World) -> Result<()> {
    let authority = StoryAuthority::new("backends")?;
    let (secured, _echo) = secured(&world, &authority).await?;
    let pem = manifests::indent(&authority.pem, 4);
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ca, namespace: default}}\ndata:\n  ca.crt: |\n{pem}"
    );
    world.write("authorities.yaml", map)?;
    let validation = |authorities: &str| {
        let policy = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: tls, namespace: default}}\n\
             spec: {{targetRefs: [{{group: '', kind: Service, name: secured}}], \
             validation: {{{authorities}, hostname: {NAME}}}}}\n"
        );
        world.write("tls.yaml", policy)
    };
    let good = "caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]";
    validation(good)?;
    let port = world.gateway()?;
    world.route("cart", &cart("1", false))?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    comes_to(port, "1").await?;
    for broken in ["caCertificateRefs: [{group: '', kind: ConfigMap, name: gone}]", "wellKnownCACertificates: Mine"] {
        validation(broken)?;
        request(port).comes_to_answer(500).await?;
        for _ in 0..AGAIN {
            request(port).answers(500).await?;
        }
        validation(good)?;
        comes_to(port, "1").await?;
    }
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    Ok(())
}
