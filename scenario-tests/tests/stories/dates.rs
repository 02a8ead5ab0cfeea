//! Certificates in time: what clients get and what is reported while a certificate is not yet valid, expires soon, or
//! has expired.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, https_listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::{Certificate, CertificateLife};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

const HOST: &str = "shop.example.com";
const DAY: i64 = 24 * 3600;
const GATE: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];

pub(crate) fn stories() -> Vec<Story> {
    stories!("dates", true, [the_last_valid_certificate_stays, without_last_valid_versions, a_proxy_with_dates])
}

/// Returns a certificate with a validity from and to these seconds from now.
fn certificate(begins: i64, expires: i64) -> Result<Certificate> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let life = CertificateLife { begins: Some(begins), expires: Some(expires) };
    Certificate::living(&[HOST], life, i64::try_from(now)?)
}

/// Returns a chain of a valid certificate and an issuer that expires these seconds from now.
fn issued_until(expires: i64) -> Result<Certificate> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let issuer = CertificateLife { begins: Some(-900 * DAY), expires: Some(expires) };
    Certificate::issued(&[HOST], CertificateLife::default(), issuer, i64::try_from(now)?)
}

fn secure(port: u16, certificate: &Certificate) -> HttpRequest {
    get(port, "/").host(HOST).tls(certificate.trust(HOST))
}

/// A Gateway with a route to a backend, and its port.
async fn shop(world: &World) -> Result<u16> {
    let port = world.port()?;
    world.gateway_with(&https_listener("web", port, "", &["shop"]))?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    Ok(port)
}

fn write(world: &World, certificate: &Certificate) -> Result<()> {
    world.write("secret.yaml", documents(&[certificate.secret("default", "shop")]))
}

/// Waits until `holdfast status` exits with this code and prints all of these texts.
async fn status(world: &World, holdfast: &Holdfast, code: i32, words: &[&str]) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until(&format!("status prints {words:?}"), || async {
        let finished = world.command(&["status", "--diagnostics", &address]).await?;
        finished.expect_code(code)?.expect_output(words).map(drop)
    })
    .await
}

/// Waits until a metric of the certificates in the namespace differs from the current time by about these seconds.
async fn metric(holdfast: &Holdfast, name: &str, seconds: i64) -> Result<()> {
    let labels = ["gateway=\"default/public\"", "namespace=\"default\""];
    until(&format!("{name} is in {seconds} seconds"), || async {
        let at = holdfast.metric(&format!("holdfast_certificate_{name}_timestamp_seconds"), &labels).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        // An hour is far more than the duration of a story.
        ensure!((at - now - seconds as f64).abs() < 3600.0, "{at}");
        Ok(())
    })
    .await
}

/// Neither an expired certificate nor one that is not valid yet replaces a valid one.
async fn the_last_valid_certificate_stays(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, good) = (shop(&world).await?, certificate(-DAY, 90 * DAY)?);
    write(&world, &good)?;
    let options = HoldfastOptions::new(&world)?.args(&GATE).args(&["--use-last-valid-config-for-fallback"]);
    let holdfast = world.run_with(options).await?;
    secure(port, &good).comes_to_reach("echo").await?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await?;
    metric(&holdfast, "expiry", 90 * DAY).await?;
    metric(&holdfast, "notice", 76 * DAY).await?;
    let hammer = Hammer::start([secure(port, &good)]);
    write(&world, &certificate(-9 * DAY, -DAY)?)?;
    let served = "is served with generation 1 of Secret default/shop";
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "the certificate expired at", served, "expires at"])
        .await?;
    metric(&holdfast, "expiry", 90 * DAY).await?;
    write(&world, &certificate(DAY, 90 * DAY)?)?;
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "the certificate is not valid before", served]).await?;
    hammer.stop_expecting(Shot::is_ok).await?;
    // The warning begins in time, and the certificate is served.
    let ending = certificate(-80 * DAY, 10 * DAY)?;
    write(&world, &ending)?;
    status(&world, &holdfast, 1, &["0 outages, 0 degraded, 1 warning", "the certificate expires at"]).await?;
    secure(port, &ending).comes_to_reach("echo").await?;
    write(&world, &certificate(-DAY, 90 * DAY)?)?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await
}

/// A certificate that expires without an edit is served, and reported at once.
async fn without_last_valid_versions(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, short) = (shop(&world).await?, certificate(-30, 30)?);
    write(&world, &short)?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&GATE)).await?;
    status(
        &world,
        &holdfast,
        1,
        &[
            "1 outage",
            "the certificate expired at",
            "clients that verify certificates refuse connections to listeners[0]",
        ],
    )
    .await?;
    ensure!(secure(port, &short).send().await.is_err(), "the client accepts an expired certificate");
    metric(&holdfast, "expiry", 0).await?;
    let good = certificate(-DAY, 90 * DAY)?;
    write(&world, &good)?;
    secure(port, &good).comes_to_reach("echo").await?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await
}

/// `check` finds the dates of the certificate of an HTTPProxy.
async fn a_proxy_with_dates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let proxy = format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: shop, namespace: default}}\nspec:\n  \
         virtualhost: {{fqdn: {HOST}, tls: {{secretName: shop}}}}\n  routes: [{{services: [{{name: echo, port: 8080}}]}}]\n"
    );
    world.write("proxy.yaml", proxy)?;
    let folder = world.manifests().display().to_string();
    for (certificate, words) in [
        (certificate(-9 * DAY, -DAY)?, "the certificate expired at"),
        (certificate(DAY, 90 * DAY)?, "the certificate is not valid before"),
        (certificate(-80 * DAY, 10 * DAY)?, "the certificate expires at"),
        (issued_until(-DAY)?, "certificate 2 of the chain in tls.crt expired at"),
        (issued_until(10 * DAY)?, "certificate 2 of the chain in tls.crt expires at"),
    ] {
        write(&world, &certificate)?;
        let checked = world.command(&["check", &folder]).await?;
        checked.expect_code(1)?.expect_output(&[words, "spec.virtualhost.tls.secretName"])?;
    }
    Ok(())
}
