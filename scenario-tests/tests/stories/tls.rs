//! HTTPS: certificates selected by server name, replaced and missing certificates, and misdirected requests.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, https_listener, listener, route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "tls",
        true,
        [
            two_certificates_by_server_name,
            several_certificates_of_one_listener,
            misdirected_requests_are_refused,
            certificate_is_replaced,
            missing_certificate_closes_its_listener_only,
            certificate_of_another_namespace,
        ]
    )
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

fn secure(port: u16, host: &str, certificate: &Certificate) -> HttpRequest {
    get(port, "/").host(host).tls(certificate.trust(host))
}

async fn shows(request: &HttpRequest, certificate: &Certificate) -> Result<()> {
    until("the right certificate is shown", || async {
        let shown = request.connect().await?.certificate;
        ensure!(shown.as_ref() == Some(&certificate.der), "another certificate");
        Ok(())
    })
    .await
}

async fn two_certificates_by_server_name(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let (one, two) = (Certificate::of(&["one.example"])?, Certificate::of(&["two.example", "*.two.example"])?);
    let port = world.port()?;
    world.write("secrets.yaml", documents(&[one.secret("default", "one"), two.secret("default", "two")]))?;
    world.gateway_with(&format!(
        "{}{}{}",
        https_listener("one", port, "one.example", &["one"]),
        https_listener("two", port, "two.example", &["two"]),
        https_listener("two-wild", port, "*.two.example", &["two"])
    ))?;
    world.write(
        "one.yaml",
        route("HTTPRoute", "default", "one", "- {name: public, sectionName: one}", &prefix("/", "one")),
    )?;
    let parents = "- {name: public, sectionName: two}\n- {name: public, sectionName: two-wild}";
    world.write("two.yaml", route("HTTPRoute", "default", "two", parents, &prefix("/", "two")))?;
    let _holdfast = world.run().await?;
    secure(port, "one.example", &one).comes_to_reach("one").await?;
    secure(port, "two.example", &two).comes_to_reach("two").await?;
    secure(port, "a.two.example", &two).comes_to_reach("two").await?;
    let over_http2 = secure(port, "one.example", &one).http2().comes_to_reach("one").await?.echo()?;
    ensure!(over_http2.header("x-forwarded-proto") == ["https"], "{over_http2:?}");
    // The handshake for a name without a listener fails, and plain HTTP is not answered.
    let unknown = get(port, "/").host("three.example").tls(one.trust("three.example"));
    ensure!(unknown.connect().await.is_err(), "a connection for a name of no listener");
    ensure!(get(port, "/").host("one.example").send().await.is_err(), "plain HTTP on the HTTPS port");
    Ok(())
}

async fn several_certificates_of_one_listener(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (one, two) = (Certificate::of(&["one.example"])?, Certificate::of(&["two.example"])?);
    let port = world.port()?;
    world.write("secrets.yaml", documents(&[one.secret("default", "one"), two.secret("default", "two")]))?;
    world.gateway_with(&https_listener("all", port, "", &["one", "two"]))?;
    world.route("all", &prefix("/", "echo"))?;
    let _holdfast = world.run().await?;
    for (host, certificate) in [("one.example", &one), ("two.example", &two)] {
        let request = secure(port, host, certificate);
        request.comes_to_reach("echo").await?;
        shows(&request, certificate).await?;
    }
    Ok(())
}

/// A connection is established for one listener; a request on it for the host of another is answered 421.
async fn misdirected_requests_are_refused(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["any", "second", "wild", "narrow"] {
        backends.push(world.backend(name).await?);
    }
    let names = ["example.org", "second.example", "*.wild.example"];
    let certificate = Certificate::of(&names)?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "all"))?;
    let sections =
        [("any", ""), ("second", "second.example"), ("wild", "*.wild.example"), ("narrow", "narrow.wild.example")];
    let listeners: String = sections.iter().map(|(name, host)| https_listener(name, port, host, &["all"])).collect();
    world.gateway_with(&listeners)?;
    for (name, _) in sections {
        let hosts = if name == "any" { "hostnames: [example.org]\n" } else { "" };
        let spec = format!("{hosts}{}", prefix("/", name));
        let parent = format!("- {{name: public, sectionName: {name}}}");
        world.write(&format!("{name}.yaml"), route("HTTPRoute", "default", name, &parent, &spec))?;
    }
    let _holdfast = world.run().await?;
    let on = |server_name: &str, host: &str| get(port, "/").host(host).tls(certificate.trust(server_name)).http2();
    on("example.org", "example.org").comes_to_reach("any").await?;
    on("second.example", "second.example").comes_to_reach("second").await?;
    on("a.wild.example", "a.wild.example").comes_to_reach("wild").await?;
    on("narrow.wild.example", "narrow.wild.example").comes_to_reach("narrow").await?;
    on("a.wild.example", "b.wild.example").reaches("wild").await?;
    for (server_name, host) in [
        ("example.org", "second.example"),
        ("example.org", "a.wild.example"),
        ("second.example", "example.org"),
        ("second.example", "narrow.wild.example"),
        ("a.wild.example", "narrow.wild.example"),
        ("narrow.wild.example", "a.wild.example"),
    ] {
        on(server_name, host).answers(421).await?;
    }
    // A host without a listener of its own or a route is not found at the listener without a hostname.
    on("example.org", "nobody.example").answers(404).await?;
    Ok(())
}

async fn certificate_is_replaced(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (old, new) = (Certificate::of(&["one.example"])?, Certificate::of(&["one.example"])?);
    let plain_port = world.port()?;
    let port = world.port()?;
    world.write("secret.yaml", old.secret("default", "one"))?;
    let listeners =
        format!("{}{}", https_listener("one", port, "one.example", &["one"]), manifests::http_listener(plain_port));
    world.gateway_with(&listeners)?;
    world.route("all", &prefix("/", "echo"))?;
    let _holdfast = world.run().await?;
    secure(port, "one.example", &old).comes_to_reach("echo").await?;
    get(plain_port, "/").comes_to_reach("echo").await?;
    let others = Hammer::start([get(plain_port, "/")]);
    world.write("secret.yaml", new.secret("default", "one"))?;
    secure(port, "one.example", &new).comes_to_reach("echo").await?;
    ensure!(secure(port, "one.example", &old).connect().await.is_err(), "the old certificate is still shown");
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A listener without a usable certificate keeps its name: the wildcard listener does not answer for it.
async fn missing_certificate_closes_its_listener_only(world: World) -> Result<()> {
    let _backends = (world.backend("named").await?, world.backend("wild").await?);
    let certificate = Certificate::of(&["*.example.org"])?;
    let port = world.port()?;
    world.write("wild-secret.yaml", certificate.secret("default", "wild"))?;
    world.gateway_with(&format!(
        "{}{}",
        https_listener("named", port, "named.example.org", &["named"]),
        https_listener("wild", port, "*.example.org", &["wild"])
    ))?;
    for name in ["named", "wild"] {
        let parent = format!("- {{name: public, sectionName: {name}}}");
        world.write(&format!("{name}.yaml"), route("HTTPRoute", "default", name, &parent, &prefix("/", name)))?;
    }
    let holdfast = world.run().await?;
    secure(port, "a.example.org", &certificate).comes_to_reach("wild").await?;
    let closed = secure(port, "named.example.org", &certificate);
    ensure!(closed.send().await.is_err(), "a listener without its certificate answers");
    holdfast.comes_to_print(&["public", "named"]).await?;

    // When the certificate is created, the listener is served; with a certificate that does not match its key, it is
    // closed again.
    world.write("named-secret.yaml", certificate.secret("default", "named"))?;
    closed.comes_to_reach("named").await?;
    let other = Certificate::of(&["*.example.org"])?;
    world.write("named-secret.yaml", manifests::tls_secret("default", "named", &certificate.pem, &other.key_pem))?;
    until("the listener with the broken pair is closed", || async {
        ensure!(closed.send().await.is_err(), "it still answers");
        Ok(())
    })
    .await?;
    secure(port, "a.example.org", &certificate).reaches("wild").await?;
    let output = holdfast.output();
    ensure!(!output.contains("PRIVATE KEY") && !output.contains(&other.key_pem), "the log holds a private key");
    Ok(())
}

async fn certificate_of_another_namespace(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("vault", "one"))?;
    let tls = "protocol: HTTPS\ntls:\n  certificateRefs:\n  - {name: one, namespace: vault}";
    world.gateway_with(&listener("https", port, tls))?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    holdfast.comes_to_print(&["vault"]).await?;
    let request = secure(port, "one.example", &certificate);
    ensure!(request.send().await.is_err(), "a certificate without a grant is shown");
    world.write("grant.yaml", manifests::grant("vault", "gateways", "Gateway", "default", "Secret"))?;
    request.comes_to_reach("echo").await?;
    world.delete("grant.yaml")?;
    until("the certificate is not shown any more", || async {
        ensure!(request.send().await.is_err(), "it still is");
        Ok(())
    })
    .await
}
