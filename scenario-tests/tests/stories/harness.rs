//! Tests of the test harness, on an Envoy with a static configuration: a check that cannot detect a failure proves
//! nothing.

use std::fs;

use anyhow::{Error, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::indent;
use holdfast_scenario_tests::process::{self, Process};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, envoy, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!("harness", true, [requests_through_a_plain_envoy, a_hammer_sees_what_breaks])
}

/// Starts an Envoy that forwards everything to one address, with plain HTTP on `plain` and TLS on `secure`.
fn start(world: &World, plain: u16, secure: u16, certificate: &Certificate, backend: u16) -> Result<Process> {
    let address = |port: u16| format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
    let filters = r#"filters:
- name: envoy.filters.network.http_connection_manager
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: all
    route_config:
      virtual_hosts:
      - name: all
        domains: ["*"]
        routes: [{match: {prefix: /}, route: {cluster: echo}}]
    http_filters:
    - name: envoy.filters.http.router
      typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;
    let files = (world.folder().join("tls.crt"), world.folder().join("tls.key"));
    fs::write(&files.0, &certificate.pem)?;
    fs::write(&files.1, &certificate.key_pem)?;
    let config = format!(
        r#"static_resources:
  listeners:
  - name: plain
    address: {}
    filter_chains:
    -
{}  - name: secure
    address: {}
    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates:
            - certificate_chain: {{filename: {}}}
              private_key: {{filename: {}}}
{}  clusters:
  - name: echo
    connect_timeout: 1s
    load_assignment:
      cluster_name: echo
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {}}}}}]}}]
"#,
        address(plain),
        indent(filters, 6),
        address(secure),
        files.0.display(),
        files.1.display(),
        indent(filters, 6),
        address(backend)
    );
    let file = world.folder().join("envoy.yaml");
    fs::write(&file, config)?;
    let binary = envoy::find().map_err(Error::msg)?;
    let file = file.display().to_string();
    Process::start(&binary, ["-c", &file, "--use-dynamic-base-id", "--concurrency", "1"], &[], &world.log("envoy"))
}

async fn requests_through_a_plain_envoy(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let (plain, secure) = (world.port()?, world.port()?);
    let envoy = start(&world, plain, secure, &certificate, echo.address().port())?;
    get(plain, "/a").host("one.example").comes_to_reach("echo").await?;
    get(plain, "/a").http2().reaches("echo").await?;
    let tls = get(secure, "/a").host("one.example").tls(certificate.trust("one.example"));
    tls.reaches("echo").await?;
    tls.http2().reaches("echo").await?;
    let other = get(secure, "/a").tls(Certificate::of(&["one.example"])?.trust("one.example"));
    ensure!(other.send().await.is_err(), "a certificate that is not trusted was accepted");
    ensure!(process::naming(world.folder()) == [envoy.id()]);
    let id = envoy.id();
    envoy.terminate().await?.expect_code(0)?;
    ensure!(!process::runs(id));
    Ok(())
}

async fn a_hammer_sees_what_breaks(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let (plain, secure) = (world.port()?, world.port()?);
    let envoy = start(&world, plain, secure, &certificate, echo.address().port())?;
    get(plain, "/").comes_to_reach("echo").await?;
    let calm = Hammer::start([get(plain, "/")]);
    calm.goes_on(20).await?;
    calm.stop_expecting(Shot::is_ok).await?;

    let hit = Hammer::start([get(plain, "/")]);
    hit.goes_on(5).await?;
    drop(echo);
    get(plain, "/").comes_to_answer(503).await?;
    hit.goes_on(5).await?;
    drop(envoy);
    until("requests are refused", || async {
        ensure!(get(plain, "/").send().await.is_err());
        Ok(())
    })
    .await?;
    hit.goes_on(5).await?;
    let seen = hit.stop().await;
    ensure!(seen.iter().any(|(shot, _)| shot.is_ok()), "{seen:?}");
    ensure!(seen.iter().any(|(shot, _)| matches!(shot, Shot::Answer { status: 503, .. })), "{seen:?}");
    ensure!(seen.iter().any(|(shot, _)| matches!(shot, Shot::Broken(_))), "{seen:?}");
    Ok(())
}
