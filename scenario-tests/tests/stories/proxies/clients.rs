//! Client certificates: requested, validated, forwarded to backends; and hosts that are closed because validation is
//! impossible.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::connect::ClientTls;
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{ServedProxies, proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::clients",
        true,
        [clients_show_certificates, backends_receive_certificate_details, what_cannot_be_checked_closes_one_host]
    )
}

/// Returns a Secret of CA certificates or revocations.
fn secret(name: &str, key: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: shop}}\nstringData: {{{key}: {}}}\n",
        serde_json::Value::from(text)
    )
}

/// Writes a host with the backend `echo`.
fn host(world: &World, name: &str, validation: &str) -> Result<()> {
    let validation =
        if validation.is_empty() { String::new() } else { format!(", clientValidation: {{{validation}}}") };
    let spec = format!(
        "virtualhost: {{fqdn: {name}.example.com, tls: {{secretName: certificate{validation}}}}}\nroutes:\n- \
         permitInsecure: true\n  services: [{{name: echo, port: 8080}}]"
    );
    world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))
}

/// The HTTPS port and the certificate of the hosts.
struct HttpsPort {
    certificate: Certificate,
    port: u16,
}

impl HttpsPort {
    fn new(certificate: Certificate, served: &ServedProxies) -> Self {
        Self { certificate, port: served.https }
    }

    fn trust(&self, name: &str) -> ClientTls {
        self.certificate.trust(&format!("{name}.example.com"))
    }

    fn request(&self, name: &str, shown: Option<&Certificate>) -> HttpRequest {
        let trust = self.trust(name);
        let trust = if let Some(shown) = shown { trust.showing(shown) } else { trust };
        get(self.port, "/").host(&format!("{name}.example.com")).tls(trust)
    }

    async fn refuses(&self, name: &str, shown: Option<&Certificate>) -> Result<()> {
        let request = self.request(name, shown);
        let answer = request.send().await;
        ensure!(answer.is_err(), "{} is answered: {answer:?}", request.line());
        Ok(())
    }

    async fn comes_to_refuse(&self, name: &str, shown: Option<&Certificate>) -> Result<()> {
        until("connections are refused", || self.refuses(name, shown)).await
    }
}

async fn clients_show_certificates(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = Certificate::of(&["*.example.com"])?;
    let (ours, others) = (StoryAuthority::new("ours")?, StoryAuthority::new("others")?);
    let (known, lost, untrusted) = (ours.client("known", 1)?, ours.client("lost", 2)?, others.client("untrusted", 1)?);
    let secrets = [
        certificate.secret("shop", "certificate"),
        secret("authorities", "ca.crt", &ours.pem),
        secret("revoked", "crl.pem", &ours.revoking(&[2])?),
    ];
    world.write("secrets.yaml", documents(&secrets))?;
    host(&world, "open", "")?;
    host(&world, "strict", "caSecret: authorities")?;
    host(&world, "optional", "caSecret: authorities, optionalClientCertificate: true")?;
    host(&world, "listed", "caSecret: authorities, crlSecret: revoked")?;
    host(&world, "leaf", "caSecret: authorities, crlSecret: revoked, crlOnlyVerifyLeafCert: true")?;
    host(&world, "unchecked", "skipClientCertValidation: true")?;
    let served = serve(&world).await?;
    let door = HttpsPort::new(certificate, &served);
    door.request("open", None).comes_to_reach("echo").await?;
    let neighbours = Hammer::start([door.request("open", None), door.request("leaf", Some(&known))]);
    for name in ["strict", "optional", "listed", "leaf", "unchecked"] {
        door.request(name, Some(&known)).comes_to_reach("echo").await?;
    }
    door.request("strict", Some(&known)).http2().reaches("echo").await?;
    door.refuses("strict", None).await?;
    door.refuses("strict", Some(&untrusted)).await?;
    door.request("strict", Some(&lost)).reaches("echo").await?;
    door.request("optional", None).reaches("echo").await?;
    door.refuses("optional", Some(&untrusted)).await?;
    for name in ["listed", "leaf"] {
        door.refuses(name, Some(&lost)).await?;
        door.refuses(name, None).await?;
    }
    // There a certificate is requested, but not required.
    door.request("unchecked", None).reaches("echo").await?;
    door.request("unchecked", Some(&untrusted)).reaches("echo").await?;
    // A connection to a host without validation cannot be used for another host.
    let mut connection = door.request("open", None).connect().await?;
    let other = get(served.https, "/").host("strict.example.com").send_on(&mut connection).await?;
    ensure!(other.status.as_u16() == 421, "{}", other.status);
    // Now clients of another authority are allowed, and the earlier ones no longer.
    world.write("authorities.yaml", secret("newer", "ca.crt", &others.pem))?;
    host(&world, "strict", "caSecret: newer")?;
    door.request("strict", Some(&untrusted)).comes_to_reach("echo").await?;
    door.comes_to_refuse("strict", Some(&known)).await?;
    neighbours.goes_on(20).await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

async fn backends_receive_certificate_details(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = Certificate::of(&["*.example.com"])?;
    let ours = StoryAuthority::new("ours")?;
    let known = ours.client("known", 1)?;
    let secrets = [certificate.secret("shop", "certificate"), secret("authorities", "ca.crt", &ours.pem)];
    world.write("secrets.yaml", documents(&secrets))?;
    let forwarding = "caSecret: authorities, optionalClientCertificate: true, forwardClientCertificate:";
    host(&world, "names", &format!("{forwarding} {{subject: true, dns: true, uri: true}}"))?;
    host(&world, "whole", &format!("{forwarding} {{cert: true, chain: true}}"))?;
    host(&world, "silent", "caSecret: authorities")?;
    let served = serve(&world).await?;
    let door = HttpsPort::new(certificate, &served);
    let header = "x-forwarded-client-cert";
    let seen = |name: &'static str, shown: Option<&Certificate>| {
        let request = door.request(name, shown).header(header, "Subject=\"CN=admin\"");
        async move { Ok::<_, anyhow::Error>(request.comes_to_reach("echo").await?.echo()?.header(header).join(",")) }
    };
    let names = seen("names", Some(&known)).await?;
    for part in ["CN=known", "DNS=known.clients.example.com", "URI=spiffe://example.com/known"] {
        ensure!(names.contains(part), "{part} is not in {names}");
    }
    ensure!(!names.contains("Cert=") && !names.contains("admin"), "{names}");
    let whole = seen("whole", Some(&known)).await?;
    ensure!(whole.contains("Cert=") && whole.contains("Chain=") && !whole.contains("Subject="), "{whole}");
    for (name, shown) in [("names", None), ("silent", Some(&known))] {
        let seen = seen(name, shown).await?;
        ensure!(seen.is_empty(), "{name}: the backend is told {seen}");
    }
    Ok(())
}

async fn what_cannot_be_checked_closes_one_host(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = Certificate::of(&["*.example.com"])?;
    let ours = StoryAuthority::new("ours")?;
    let known = ours.client("known", 1)?;
    world.write("certificate.yaml", certificate.secret("shop", "certificate"))?;
    world.write("authorities.yaml", secret("authorities", "ca.crt", &ours.pem))?;
    world.write("own.yaml", secret("own", "ca.crt", &ours.pem))?;
    world.write("revoked.yaml", secret("revoked", "crl.pem", &ours.revoking(&[])?))?;
    let wild = "virtualhost: {fqdn: \"*.example.com\", tls: {secretName: certificate}}\nroutes:\n- permitInsecure: \
                true\n  services: [{name: echo, port: 8080}]";
    world.write("wild.yaml", proxy("shop", "wild", wild))?;
    host(&world, "neighbour", "caSecret: authorities")?;
    host(&world, "strict", "caSecret: own, crlSecret: revoked")?;
    let served = serve(&world).await?;
    let door = HttpsPort::new(certificate, &served);
    for name in ["strict", "neighbour", "any"] {
        door.request(name, Some(&known)).comes_to_reach("echo").await?;
    }
    let neighbours = Hammer::start([
        door.request("neighbour", Some(&known)),
        door.request("any", None),
        served.get("neighbour.example.com", "/"),
        served.get("any.example.com", "/"),
    ]);
    let nonsense = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
    let list = ours.revoking(&[])?;
    let broken = [
        ("own.yaml", secret("own", "ca.crt", nonsense), secret("own", "ca.crt", &ours.pem)),
        ("own.yaml", secret("own", "other", &ours.pem), secret("own", "ca.crt", &ours.pem)),
        ("revoked.yaml", secret("revoked", "crl.pem", "words"), secret("revoked", "crl.pem", &list)),
    ];
    for (file, broken, good) in broken {
        world.write(file, broken)?;
        served.get("strict.example.com", "/").comes_to_answer(500).await?;
        for shown in [Some(&known), None] {
            door.comes_to_refuse("strict", shown).await?;
        }
        served.comes_to_be("shop", "strict", "invalid").await?;
        world.write(file, good)?;
        door.request("strict", Some(&known)).comes_to_reach("echo").await?;
    }
    world.delete("revoked.yaml")?;
    served.get("strict.example.com", "/").comes_to_answer(500).await?;
    door.comes_to_refuse("strict", Some(&known)).await?;
    neighbours.goes_on(20).await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}
