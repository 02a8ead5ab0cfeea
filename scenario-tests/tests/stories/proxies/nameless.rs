//! Clients without server name indication: they receive the operator's certificate.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{proxy, serve_with};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::nameless", true, [clients_that_name_no_host])
}

async fn clients_that_name_no_host(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "one", None).await?, world.backend_in("shop", "two", None).await?);
    let (own, fallback) =
        (Certificate::of(&["*.example.com"])?, Certificate::of(&["fallback.example.com", "nobody.example.org"])?);
    world.write("secrets.yaml", documents(&[own.secret("shop", "own"), fallback.secret("vault", "fallback")]))?;
    let delegation = "apiVersion: projectcontour.io/v1\nkind: TLSCertificateDelegation\nmetadata: {name: d, namespace: vault}\nspec: {delegations: [{secretName: fallback, targetNamespaces: [shop]}]}\n";
    world.write("delegation.yaml", delegation)?;
    for (name, enabled) in [("one", "true"), ("two", "false")] {
        let spec = format!(
            "virtualhost: {{fqdn: {name}.example.com, tls: {{secretName: own, enableFallbackCertificate: {enabled}}}}}\n\
             routes:\n- services: [{{name: {name}, port: 8080}}]"
        );
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))?;
    }
    let served = serve_with(&world, &["--httpproxy-fallback-certificate", "vault/fallback"]).await?;
    let named = |name: &str| {
        let host = format!("{name}.example.com");
        get(served.https, "/").host(&host).tls(own.trust(&host))
    };
    let nameless = |name: &str| {
        let trust = fallback.trust("fallback.example.com").nameless();
        get(served.https, "/").host(&format!("{name}.example.com")).tls(trust)
    };
    named("one").comes_to_reach("one").await?;
    named("two").comes_to_reach("two").await?;
    nameless("one").comes_to_reach("one").await?;
    nameless("one").http2().reaches("one").await?;
    // Hosts without this certificate are not found there, and neither is any other host.
    nameless("two").answers(421).await?;
    nameless("three").answers(421).await?;
    let unknown = get(served.https, "/").host("one.example.com").tls(fallback.trust("nobody.example.org"));
    unknown.reaches("one").await?;
    // An open connection for one host cannot be used for the other.
    let mut connection = named("one").connect().await?;
    let other = get(served.https, "/").host("two.example.com").send_on(&mut connection).await?;
    ensure!(other.status.as_u16() == 421, "{}", other.status);
    let hammer = Hammer::start([named("one"), named("two")]);
    world.delete("delegation.yaml")?;
    let refused = || async {
        ensure!(nameless("one").send().await.is_err(), "clients that name no host are answered");
        Ok(())
    };
    until("clients that name no host are refused", refused).await?;
    served.comes_to_be("shop", "one", "invalid").await?;
    world.write("delegation.yaml", delegation)?;
    nameless("one").comes_to_reach("one").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}
