//! Certificates in time: what clients get and what is reported while a certificate is not yet valid, expires soon, or
//! has expired.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use holdfast_check::time::Moment;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, https_listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::{Certificate, CertificateLife};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, manifests, stories, until};

const HOST: &str = "shop.example.com";
const DAY: i64 = 24 * 3600;
const GATE: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "dates",
        true,
        [
            the_last_valid_certificate_stays,
            a_deleted_secret_is_a_later_fault,
            without_last_valid_versions,
            several_certificates,
            a_certificate_of_another_listener,
            a_proxy_with_dates,
            authorities_of_a_proxy_that_expired,
        ]
    )
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

/// Serves a route with a valid certificate, and with last valid versions: the port, the certificate, and Holdfast.
async fn last_valid_shop(world: &World) -> Result<(u16, Certificate, Holdfast)> {
    let (port, good) = (shop(world).await?, certificate(-DAY, 90 * DAY)?);
    write(world, &good)?;
    let options = HoldfastOptions::new(world)?.args(&GATE).args(&["--use-last-valid-config-for-fallback"]);
    let holdfast = world.run_with(options).await?;
    secure(port, &good).comes_to_reach("echo").await?;
    Ok((port, good, holdfast))
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

/// Waits until the explanation of a request has this exit code and this text.
async fn comes_to_explain(world: &World, holdfast: &Holdfast, url: &str, code: i32, words: &str) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until(&format!("explain {url} ends with {code} and has {words:?}"), || async {
        let explained = world.command(&["explain", "--diagnostics", &address, "GET", url]).await?;
        explained.expect_code(code)?.expect_output(&[words]).map(drop)
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
    let (port, good, holdfast) = last_valid_shop(&world).await?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await?;
    metric(&holdfast, "expiry", 90 * DAY).await?;
    metric(&holdfast, "notice", 76 * DAY).await?;
    let hammer = Hammer::start([secure(port, &good)]);
    write(&world, &certificate(-9 * DAY, -DAY)?)?;
    let served = "is served with generation 1 of Secret default/shop";
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "the certificate expired at", served, "expires at"])
        .await?;
    metric(&holdfast, "expiry", 90 * DAY).await?;
    until("the condition of the listener names the last valid version", || async {
        let statuses = holdfast.diagnostics("/debug/statuses").await?.to_string();
        ensure!(
            statuses.contains("acknowledged by Envoy with the last valid version of the certificate"),
            "{statuses}"
        );
        Ok(())
    })
    .await?;
    write(&world, &certificate(DAY, 90 * DAY)?)?;
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "the certificate is not valid before", served]).await?;
    hammer.stop_expecting(Shot::is_ok).await?;
    // The warning begins in time, and the certificate is served.
    let ending = certificate(-80 * DAY, 10 * DAY)?;
    write(&world, &ending)?;
    // The warning is about the Secret, which is to be renewed.
    let (subject, affected) = ("\nSecret default/shop, generation", "affects  Gateway default/public");
    let warning = ["0 outages, 0 degraded, 1 warning", "the certificate expires at", subject, affected];
    status(&world, &holdfast, 1, &warning).await?;
    secure(port, &ending).comes_to_reach("echo").await?;
    write(&world, &certificate(-DAY, 90 * DAY)?)?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await
}

/// An expired certificate, of which the last valid version is served, and the deletion of its Secret later, which refuses
/// connections, are two faults: the outage begins with the deletion.
async fn a_deleted_secret_is_a_later_fault(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (_, _, holdfast) = last_valid_shop(&world).await?;
    write(&world, &certificate(-9 * DAY, -DAY)?)?;
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "the certificate expired at"]).await?;
    let since = async |of: &str| -> Result<String> {
        until("the finding has a time", || async {
            let page = holdfast.diagnostics("/debug/health").await?;
            Ok(page[of][0]["since"].as_str().with_context(|| page.to_string())?.to_owned())
        })
        .await
    };
    let expired = since("degraded").await?;
    until("a second has passed", || async {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        ensure!(Moment(i64::try_from(now)?).to_string() > expired, "{now}");
        Ok(())
    })
    .await?;
    world.delete("secret.yaml")?;
    status(&world, &holdfast, 1, &["outage", "Secret default/shop does not exist"]).await?;
    let deleted = since("outages").await?;
    ensure!(deleted > expired, "the outage began at {deleted}, and the certificate expired at {expired}");
    Ok(())
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
            "outage",
            "the certificate expired at",
            "clients that verify certificates refuse connections to listeners[0]",
        ],
    )
    .await?;
    ensure!(secure(port, &short).send().await.is_err(), "the client accepts an expired certificate");
    let url = format!("https://{HOST}:{port}/");
    comes_to_explain(&world, &holdfast, &url, 3, "may concern   ").await?;
    let page = get(holdfast.options.diagnostics, "/object/Secret/default/shop").host("localhost").send().await?.body;
    ensure!(page.contains("Secret – at fault") && page.contains("Gateway – affected"), "{page}");
    ensure!(page.contains("clients get errors"), "{page}");
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let difference = world.command(&["diff", "Secret/default/shop", "--diagnostics", &diagnostics]).await?;
    difference
        .expect_output(&["because   Secret default/shop, data: ", "affects   Gateway default/public: clients that"])?;
    metric(&holdfast, "expiry", 0).await?;
    let good = certificate(-DAY, 90 * DAY)?;
    write(&world, &good)?;
    secure(port, &good).comes_to_reach("echo").await?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await
}

/// Of several certificates, Envoy selects by name, then by the kind of key that the client supports, then by order. The
/// report is about the certificates that clients get.
async fn several_certificates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let (good, old) = ((-DAY, 90 * DAY), (-9 * DAY, -DAY));
    let of = |names: &[&str], (begins, expires): (i64, i64)| {
        let life = CertificateLife { begins: Some(begins), expires: Some(expires) };
        Certificate::living(names, life, now)
    };
    let rsa = |(begins, expires): (i64, i64)| {
        let life = CertificateLife { begins: Some(begins), expires: Some(expires) };
        Certificate::living_rsa(&[HOST], life, now)
    };
    let refuse = "clients that verify certificates refuse connections to listeners[0]";
    let refuse_shop = format!("{refuse}: {HOST}");
    let refuse_pay = format!("{refuse}: pay.example.com");
    let without_ecdsa = "clients that verify certificates and support no ECDSA refuse connections to listeners[0]";
    let no_outage = "0 outages, 0 degraded, 1 warning";
    // The certificates, whether a client that supports everything is served, and one that supports RSA only, and what is
    // reported.
    let rows = [
        (of(&[HOST], good)?, of(&[HOST], old)?, true, false, no_outage),
        (of(&[HOST], old)?, of(&[HOST], good)?, false, false, &*refuse_shop),
        (rsa(old)?, of(&[HOST], good)?, true, false, without_ecdsa),
        (of(&[HOST], good)?, rsa(old)?, true, false, without_ecdsa),
        (rsa(good)?, of(&[HOST], old)?, false, true, &*refuse_shop),
        (of(&[HOST], old)?, rsa(good)?, false, true, &*refuse_shop),
        (of(&["pay.example.com"], old)?, of(&[HOST], good)?, true, false, &*refuse_pay),
        (of(&["*.example.com"], old)?, of(&[HOST], good)?, true, false, &*format!("{refuse}: *.example.com")),
    ];
    let mut holdfast = None;
    for (index, (first, second, is_served, is_served_rsa, words)) in rows.into_iter().enumerate() {
        // Listeners with other names are other tables: no client meets the configuration of the row before.
        let name = format!("web-{index}");
        world.gateway_with(&https_listener(&name, port, "", &["first", "second"]))?;
        world
            .write("secret.yaml", documents(&[first.secret("default", "first"), second.secret("default", "second")]))?;
        let holdfast = match &mut holdfast {
            Some(holdfast) => holdfast,
            none => none.insert(world.run_with(HoldfastOptions::new(&world)?.args(&GATE)).await?),
        };
        status(&world, holdfast, 1, &[words]).await?;
        until(&format!("row {index}"), || async {
            for (only_rsa, expected) in [(false, is_served), (true, is_served_rsa)] {
                let mut served = false;
                for certificate in [&first, &second] {
                    let trust = certificate.trust(HOST);
                    let trust = if only_rsa { trust.only_rsa() } else { trust };
                    served |= get(port, "/").host(HOST).tls(trust).send().await.is_ok();
                }
                ensure!(served == expected, "row {index}: only RSA: {only_rsa}, served: {served}");
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The last valid version of a certificate concerns the requests at the listeners that use it, and no other ones.
async fn a_certificate_of_another_listener(world: World) -> Result<()> {
    const PAY: &str = "pay.example.com";
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let listeners = https_listener("web", port, HOST, &["shop"]) + "\n" + &https_listener("wide", port, "", &["pay"]);
    world.gateway_with(&listeners)?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let good = certificate(-DAY, 90 * DAY)?;
    write(&world, &good)?;
    let pay = |certificate: Certificate| world.write("pay.yaml", documents(&[certificate.secret("default", "pay")]));
    pay(Certificate::of(&[PAY])?)?;
    let options = HoldfastOptions::new(&world)?.args(&GATE).args(&["--use-last-valid-config-for-fallback"]);
    let holdfast = world.run_with(options).await?;
    secure(port, &good).comes_to_reach("echo").await?;
    pay(certificate(-9 * DAY, -DAY)?)?;
    status(&world, &holdfast, 1, &["0 outages, 1 degraded", "listeners[1] is served with generation 1"]).await?;
    comes_to_explain(
        &world,
        &holdfast,
        &format!("https://{PAY}:{port}/"),
        1,
        "last valid    Secret default/pay: generation 1",
    )
    .await?;
    comes_to_explain(&world, &holdfast, &format!("https://{HOST}:{port}/"), 0, "forwarded to Service").await
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

/// Expired certificate authorities, with which an HTTPProxy verifies backends, an ExtensionService and the server of a
/// JWT provider: requests to the backend fail, and `status` and `check` name each place.
async fn authorities_of_a_proxy_that_expired(world: World) -> Result<()> {
    const OLD: &str = "every certificate of ca.crt has expired";
    let echo = world.backend("echo").await?;
    let good = certificate(-DAY, 90 * DAY)?;
    let front = good.front(echo.address()).await?;
    world.write("secured.yaml", manifests::service(manifests::NAMESPACE, "secured", None, &[front.address]))?;
    let proxy = |name: &str, spec: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
        )
    };
    let validation = format!("validation: {{caSecret: ca, subjectName: {HOST}}}");
    let service = format!("routes: [{{services: [{{name: secured, port: 8080, protocol: tls, {validation}}}]}}]");
    world.write("proxy.yaml", proxy("shop", &format!("{{virtualhost: {{fqdn: {HOST}}}, {service}}}")))?;
    let authorities = |certificate: &Certificate| {
        let pem = serde_json::Value::from(certificate.pem.as_str());
        let secret = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: ca, namespace: default}}\nstringData: {{ca.crt: {pem}}}\n"
        );
        world.write("authorities.yaml", secret)
    };
    authorities(&certificate(-9 * DAY, -DAY)?)?;
    let (port, secure) = (world.port()?, world.port()?.to_string());
    let http = port.to_string();
    let ports = ["--httpproxy-http", &http, "--httpproxy-https", &secure];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&ports)).await?;
    get(port, "/").host(HOST).comes_to_answer(503).await?;
    let named = ["OUTAGES: clients get errors", OLD, "spec.routes[0].services[0].validation", "Secret default/ca"];
    status(&world, &holdfast, 1, &named).await?;
    let url = format!("http://{HOST}:{port}/");
    comes_to_explain(&world, &holdfast, &url, 3, "may concern   HTTPProxy default/shop").await?;
    authorities(&good)?;
    get(port, "/").host(HOST).comes_to_reach("echo").await?;
    status(&world, &holdfast, 0, &["Everything is served as desired."]).await?;
    comes_to_explain(&world, &holdfast, &url, 0, "forwarded to Service default/secured").await?;

    write(&world, &good)?;
    authorities(&certificate(-9 * DAY, -DAY)?)?;
    let extension = format!(
        "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\nmetadata: {{name: auth, namespace: default}}\n\
         spec: {{services: [{{name: secured, port: 8080}}], {validation}}}\n"
    );
    let plain = extension.replace("name: auth", "name: plain").replace("spec: {", "spec: {protocol: http/1.1, ");
    let provider = format!("{{name: own, remoteJWKS: {{uri: 'https://{HOST}/keys', {validation}}}}}");
    let guarded = format!(
        "{{virtualhost: {{fqdn: guarded.example.com, tls: {{secretName: shop}}, jwtProviders: [{provider}], authorization: \
         {{extensionRef: {{name: auth, namespace: default}}}}}}, routes: [{{services: [{{name: echo, port: 8080}}]}}]}}"
    );
    world.write("guarded.yaml", documents(&[extension, plain, proxy("guarded", &guarded)]))?;
    let checked = world.command(&["check", &world.manifests().display().to_string()]).await?;
    let provider = "spec.virtualhost.jwtProviders[0].remoteJWKS.validation";
    ensure!(
        !checked.output().contains("ExtensionService:default/plain: spec.validation: Secret"),
        "{}",
        checked.output()
    );
    for place in ["spec.routes[0].services[0].validation", "ExtensionService:default/auth: spec.validation", provider] {
        checked.expect_code(1)?.expect_output(&[&format!("{place}: Secret default/ca: {OLD}")])?;
    }
    Ok(())
}
