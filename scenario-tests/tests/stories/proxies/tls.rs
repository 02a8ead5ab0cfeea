//! Hosts with TLS.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Story, World, stories, until};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::tls", true, [hosts_with_tls])
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
    // Without a delegation of the certificate, the wildcard does not answer.
    let refused = |request: HttpRequest| async move {
        ensure!(request.send().await.is_err(), "{} is answered", request.line());
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
    // A connection is valid for one host only.
    let mut connection = secure("own.example.com", &own).connect().await?;
    let other = get(served.https, "/").host("any.example.com").send_on(&mut connection).await?;
    ensure!(other.status.as_u16() == 421, "{}", other.status);
    // When the delegation is deleted, the host closes again.
    world.delete("delegation.yaml")?;
    served.get("own.example.com", "/open").comes_to_answer(500).await?;
    until("connections are refused", || async { refused(secure("own.example.com", &own)).await }).await?;
    secure("any.example.com", &wild).reaches("echo").await?;
    Ok(())
}
