//! xDS access by unauthenticated peers: only certificates and tokens decide which Gateway's configuration an Envoy
//! receives.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::holdfast::{PAGES, STORE_TRACED};
use holdfast_scenario_tests::manifests::{class, documents, gateway, http_listener, https_listener, route};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

use crate::seeing::for_each_file;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "xds_access",
        true,
        [
            certificates_decide,
            certificates_are_renewed_under_load,
            a_removed_authority_admits_no_client_again,
            reachable_by_others_needs_tls
        ]
    )
}

/// Creates certificates in a folder of the world.
async fn certgen(world: &World, folder: &str) -> Result<PathBuf> {
    let path = world.folder().join(folder);
    let out = path.display().to_string();
    let gateways = "default/public,default/other";
    world
        .command(&["certgen", "--out", &out, "--server-name", "127.0.0.1", "--gateway", gateways])
        .await?
        .expect_code(0)?;
    Ok(path)
}

/// Returns options of a Holdfast that serves xDS over TLS with these certificates.
fn options(world: &World, certificates: &Path) -> Result<HoldfastOptions> {
    let file = |name: &str| certificates.join("server").join(name).display().to_string();
    let (certificate, key, authorities) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
    let args = ["--xds-tls-cert", &certificate, "--xds-tls-key", &key, "--xds-client-ca", &authorities];
    Ok(HoldfastOptions::new(world)?.without_envoy().args(&args))
}

fn envoy(node: &str, credentials: PathBuf) -> FleetEnvoy {
    FleetEnvoy { credentials: Some(credentials), ..FleetEnvoy::large(node) }
}

/// Writes the Gateways `default/public`, with a certificate, and `default/other`; returns their ports.
fn two_gateways(world: &World, certificate: &Certificate) -> Result<(u16, u16)> {
    let (public, other) = (world.port()?, world.port()?);
    let listeners = https_listener("one", public, "one.example", &["one"]);
    let gateways = [class(), gateway("public", &listeners), gateway("other", &http_listener(other))];
    world.write("gateways.yaml", documents(&gateways))?;
    world.write("secret.yaml", certificate.secret("default", "one"))?;
    let rules = "rules: [{backendRefs: [{name: echo, port: 8080}]}]";
    let routes = ["public", "other"].map(|name| route("HTTPRoute", "default", name, &format!("- name: {name}"), rules));
    world.write("routes.yaml", documents(&routes))?;
    Ok((public, other))
}

/// Fails if an Envoy has any resource of a Gateway.
async fn has_nothing(envoy: &RunningEnvoy) -> Result<()> {
    for resource in ["dynamic_listeners", "dynamic_active_clusters", "dynamic_warming_clusters"] {
        let dump = envoy.dump(resource).await?;
        ensure!(dump.get("configs").is_none(), "{} has {dump}", envoy.node);
    }
    for resource in ["dynamic_active_secrets", "dynamic_warming_secrets"] {
        let dump = envoy.dump(resource).await?.to_string();
        ensure!(!dump.contains("default/one") && !dump.contains("BEGIN"), "{} has {dump}", envoy.node);
    }
    Ok(())
}

/// Waits until an Envoy was rejected twice.
async fn is_turned_away(envoy: &RunningEnvoy) -> Result<()> {
    until("it is turned away", || async {
        // In the handshake, or stream by stream on an open connection.
        let connections = envoy.stat("cluster.holdfast-xds.upstream_cx_total").await?;
        let streams = envoy.stat("cluster.holdfast-xds.upstream_rq_total").await?;
        ensure!(connections.max(streams) >= 2, "{} tried {connections} connections, {streams} streams", envoy.node);
        Ok(())
    })
    .await
}

/// Each Envoy receives the configuration of the Gateway in its certificate only, whatever Gateway it requests; other
/// clients receive nothing. At log level trace, no private key appears anywhere.
async fn certificates_decide(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let (public, other) = two_gateways(&world, &certificate)?;
    let (ours, theirs) = (certgen(&world, "certs").await?, certgen(&world, "theirs").await?);
    let options = options(&world, &ours)?.args(&["--log-level", STORE_TRACED]);
    let holdfast = world.run_with(options.clone()).await?;
    let folder = |root: &Path, gateway: &str| root.join("gateways").join(gateway);

    // Unauthenticated Envoys start first, so that they have the most time to receive something.
    let foreign = envoy("foreign", folder(&theirs, "default_public"));
    // It trusts this server; its own certificate is of another authority.
    fs::copy(ours.join("server/ca.crt"), folder(&theirs, "default_public").join("ca.crt"))?;
    let of_other = envoy("of-other", folder(&ours, "default_other"));
    let lies_in_delta = FleetEnvoy { gateway: "default/public", ..of_other.clone() };
    let lies_in_sotw = FleetEnvoy { node: "of-other-sotw".into(), sotw: true, ..lies_in_delta.clone() };
    let plain = FleetEnvoy::large("plain");
    let shows_none = envoy("shows-none", folder(&ours, "default_public"));
    let shows_none = FleetEnvoy { edits: without_certificate(&world, &options, &shows_none).await?, ..shows_none };
    let mut unauthenticated = Vec::new();
    for client in [foreign, lies_in_delta, lies_in_sotw, plain, shows_none] {
        unauthenticated.push(client.start(&world, &options).await?);
    }
    let _other =
        FleetEnvoy { node: "other".into(), gateway: "default/other", ..of_other }.start(&world, &options).await?;
    get(other, "/").comes_to_reach("echo").await?;
    let first = envoy("first", folder(&ours, "default_public")).start(&world, &options).await?;
    let request = || get(public, "/").host("one.example").tls(certificate.trust("one.example"));
    request().comes_to_reach("echo").await?;
    ensure!(first.dump("dynamic_active_secrets").await?.to_string().contains("default/one"));
    for client in &unauthenticated {
        is_turned_away(client).await?;
        has_nothing(client).await?;
    }
    connected(&holdfast, 2).await?;
    let envoys = holdfast.diagnostics("/debug/envoys").await?.to_string();
    ensure!(!envoys.contains("of-other") && !envoys.contains("foreign"), "{envoys}");
    holdfast.comes_to_print(&["stream refused", "not the Gateway that the credentials are for"]).await?;
    drop(unauthenticated);

    let mut keys = vec![certificate.key_pem.clone()];
    let signer = fs::read_dir(ours.join("authority"))?.flatten().map(|entry| entry.path());
    let signer = signer.filter(|path| path.extension().is_some_and(|end| end == "key"));
    for key in signer.chain([ours.join("server/tls.key"), folder(&ours, "default_public").join("tls.key")]) {
        keys.push(fs::read_to_string(key)?);
    }
    let mut marks = Vec::new();
    for key in keys {
        marks.push(key.lines().nth(1).context("a key of one line")?.to_owned());
        marks.push(STANDARD.encode(&key).get(60..120).context("a short key")?.to_owned());
    }
    nowhere(&world, holdfast, &marks).await
}

/// Returns the edit that removes the client certificate from a bootstrap.
async fn without_certificate(
    world: &World,
    options: &HoldfastOptions,
    envoy: &FleetEnvoy,
) -> Result<Vec<(String, String)>> {
    let folder = envoy.credentials.as_ref().context("no credentials")?.display().to_string();
    let args = ["bootstrap", "--gateway", envoy.gateway, "--xds", &options.xds, "--xds-credentials", &folder];
    let printed = world.command(&args).await?.stdout;
    let from = printed.find("tls_certificate_sds_secret_configs:").context("no certificate")?;
    let to = from + printed.get(from..).and_then(|rest| rest.find("tls_params:")).context("no end")?;
    Ok(vec![(printed.get(from..to).context("no text")?.to_owned(), String::new())])
}

/// Checks that no page, metric, log or file of the data folder contains any of these marks.
async fn nowhere(world: &World, holdfast: Holdfast, marks: &[String]) -> Result<()> {
    let clean = |what: &str, text: &str| {
        ensure!(marks.iter().all(|mark| !text.contains(mark.as_str())), "{what} holds a private key");
        Ok(())
    };
    for page in PAGES {
        let reply = get(holdfast.options.diagnostics, &format!("/debug/{page}")).host("localhost").answers(200).await?;
        clean(page, &reply.body)?;
    }
    clean("metrics", &holdfast.metrics().await?)?;
    let output = holdfast.output();
    ensure!(output.contains("TRACE"), "nothing is traced");
    let options = holdfast.kill()?;
    clean("the log", &output)?;
    for_each_file(&options.data, &mut |path, text| clean(&path.display().to_string(), text))?;
    for_each_file(&world.folder().join("logs"), &mut |path, text| clean(&path.display().to_string(), text))
}

/// All certificates on both sides are replaced, the authority too, without a failed request. Afterwards both sides use
/// the new ones: an Envoy that reconnects is authenticated with them.
async fn certificates_are_renewed_under_load(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", "rules: [{backendRefs: [{name: echo, port: 8080}]}]")?;
    let certificates = certgen(&world, "certs").await?;
    let holdfast = world.run_with(options(&world, &certificates)?.args(&["--log-level", "debug"])).await?;
    let envoy = envoy("first", certificates.join("gateways/default_public")).start(&world, &holdfast.options).await?;
    get(port, "/").comes_to_reach("echo").await?;
    let load = Hammer::start([get(port, "/")]);
    let before = envoy.stat("client_ssl_socket_factory.ssl_context_update_by_sds").await?;

    fs::remove_dir_all(certificates.join("authority"))?;
    certgen(&world, "certs").await?;
    holdfast.comes_to_print(&["the certificates of the xDS server have changed"]).await?;
    until("the Envoy has read its new certificate", || async {
        let now = envoy.stat("client_ssl_socket_factory.ssl_context_update_by_sds").await?;
        ensure!(now > before, "{now}");
        Ok(())
    })
    .await?;
    world.route("more", "rules: [{matches: [{path: {value: /more}}], backendRefs: [{name: nowhere, port: 80}]}]")?;
    get(port, "/more").comes_to_answer(500).await?;
    let output = holdfast.output();
    ensure!(
        !output.contains("Envoy disconnected") && !output.contains("stream ended"),
        "a stream was dropped:\n{output}"
    );

    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    connected(&holdfast, 1).await?;
    world.delete("route-more.yaml")?;
    get(port, "/more").comes_to_reach("echo").await?;
    load.stop_expecting(Shot::is_ok).await?;
    envoy.never_refused().await
}

/// An Envoy with certificates of an authority that is no longer trusted keeps its configuration, and receives nothing
/// new.
async fn a_removed_authority_admits_no_client_again(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", "rules: [{backendRefs: [{name: echo, port: 8080}]}]")?;
    let (ours, others) = (certgen(&world, "certs").await?, certgen(&world, "others").await?);
    let holdfast = world.run_with(options(&world, &ours)?).await?;
    let envoy = envoy("first", ours.join("gateways/default_public")).start(&world, &holdfast.options).await?;
    get(port, "/").comes_to_reach("echo").await?;
    // An invalid file changes nothing.
    fs::write(ours.join("server/ca.crt"), "nonsense")?;
    holdfast.comes_to_print(&["the previous certificates stay in use"]).await?;
    fs::copy(others.join("server/ca.crt"), ours.join("server/ca.crt"))?;
    holdfast.comes_to_print(&["the certificates of the xDS server have changed"]).await?;
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    let tries = envoy.stat("cluster.holdfast-xds.upstream_cx_total").await?;
    until("it is turned away", || async {
        let now = envoy.stat("cluster.holdfast-xds.upstream_cx_total").await?;
        ensure!(now >= tries + 2, "{now}");
        Ok(())
    })
    .await?;
    connected(&holdfast, 0).await?;
    get(port, "/").comes_to_reach("echo").await?;
    Ok(())
}

async fn reachable_by_others_needs_tls(world: World) -> Result<()> {
    let manifests = world.manifests().display().to_string();
    let run = ["run", "--manifests", &manifests, "--envoy", "none", "--xds-listen", "0.0.0.0:0"];
    let refused = world.command(&run).await?;
    refused.expect_code(2)?.expect_output(&["--xds-tls-cert", "--insecure-xds", "certgen"])?;
    Ok(())
}
