//! The client certificate of a Gateway (`spec.tls.backend`): backends and services over TLS get it from this Gateway and
//! from no other, and without it they get no connection.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, http_listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, mistakes, stories, until};

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "client_certificate",
        true,
        [
            backends_get_the_certificate,
            backends_get_no_anonymous_connection,
            last_valid_certificate,
            services_of_proxies_get_the_certificate,
            refused_without_isolation,
        ]
    )
}

/// The name in the certificate of the backend.
const NAME: &str = "shop.clients.example.com";

/// A Gateway with a client certificate, one without, and a backend over TLS that also serves clients without a
/// certificate. It is behind an HTTPRoute of both Gateways, and behind an HTTPProxy of the first; it authorizes the
/// requests of one more route.
struct Shop {
    authority: StoryAuthority,
    backend: Secured,
    _pods: [Echo; 2],
    port: u16,
    other: u16,
}

impl Shop {
    async fn new(world: &World) -> Result<Self> {
        let authority = StoryAuthority::new("everybody")?;
        let pod = world.pod("default", "secured", "secured").await?;
        let backend = Secured::lenient(&authority.client("shop", 1)?, &authority, pod.address()).await?;
        let plain = world.backend("plain").await?;
        let (port, other) = (world.port()?, world.port()?);
        world.write("secured.yaml", manifests::service("default", "secured", None, &[backend.address]))?;
        world.write("proxied.yaml", manifests::service("default", "proxied", None, &[backend.address]))?;
        let text = serde_json::Value::from(&*authority.pem);
        let policies = [
            format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: ca, namespace: default}}\ndata: {{ca.crt: {text}}}\n"),
            format!("kind: Secret\napiVersion: v1\nmetadata: {{name: ca, namespace: default}}\nstringData: {{ca.crt: {text}}}\n"),
            format!(
                "kind: BackendTLSPolicy\napiVersion: gateway.networking.k8s.io/v1\n\
                 metadata: {{name: tls, namespace: default}}\nspec: {{targetRefs: [{{group: '', kind: Service, name: secured}}], \
                 validation: {{caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}], hostname: {NAME}}}}}\n"
            ),
            // Each request has a connection of its own.
            "kind: BackendConfigPolicy\napiVersion: gateway.kgateway.dev/v1alpha1\n\
             metadata: {name: reuse, namespace: default}\nspec: {targetRefs: [{group: '', kind: Service, name: secured}], \
             commonHttpProtocolOptions: {maxRequestsPerConnection: 1}}\n"
                .to_owned(),
            "kind: GatewayExtension\napiVersion: gateway.kgateway.dev/v1alpha1\n\
             metadata: {name: auth, namespace: default}\nspec: {extAuth: {failOpen: true, \
             httpService: {backendRef: {name: secured, port: 8080}, requestTimeout: 5s}}}\n"
                .to_owned(),
            "kind: TrafficPolicy\napiVersion: gateway.kgateway.dev/v1alpha1\n\
             metadata: {name: auth, namespace: default}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, \
             kind: HTTPRoute, name: r, sectionName: guarded}], extAuth: {extensionRef: {name: auth}}}\n"
                .to_owned(),
            format!(
                "kind: HTTPProxy\napiVersion: projectcontour.io/v1\nmetadata: {{name: p, namespace: default}}\n\
                 spec: {{virtualhost: {{fqdn: proxied.example.com}}, routes: [{{services: [{{name: proxied, port: 8080, \
                 protocol: tls, validation: {{caSecret: ca, subjectName: {NAME}}}}}]}}]}}\n"
            ),
        ];
        world.write("policies.yaml", documents(&policies))?;
        let rules = "hostnames: [shop.example.com]\nrules:\n\
                     - {matches: [{path: {value: /secured}}], backendRefs: [{name: secured, port: 8080}]}\n\
                     - {matches: [{path: {value: /plain}}], backendRefs: [{name: plain, port: 8080}]}\n\
                     - {name: guarded, matches: [{path: {value: /guarded}}], backendRefs: [{name: plain, port: 8080}]}\n";
        let parents = "- {name: public}\n- {name: other}\n";
        world.write("route.yaml", manifests::route("HTTPRoute", "default", "r", parents, rules))?;
        Ok(Self { authority, backend, _pods: [pod, plain], port, other })
    }

    /// Writes both Gateways; `tls` has the fields below `spec.tls` of the first.
    fn gateways(&self, world: &World, tls: &str) -> Result<()> {
        let public = manifests::gateway("public", &http_listener(self.port));
        let public = public.replace("  listeners:\n", &format!("  tls: {{{tls}}}\n  listeners:\n"));
        let other = manifests::gateway("other", &http_listener(self.other));
        world.write("gateway.yaml", documents(&[manifests::class(), public, other]))
    }

    fn at(&self, path: &str) -> HttpRequest {
        get(self.port, path).host("shop.example.com")
    }

    fn through_proxy(&self) -> HttpRequest {
        get(self.port, "/").host("proxied.example.com")
    }

    /// Waits until all requests that need the backend are served.
    async fn comes_to_serve(&self) -> Result<()> {
        self.at("/secured").comes_to_reach("secured").await?;
        self.at("/guarded").comes_to_reach("plain").await?;
        self.through_proxy().comes_to_reach("secured").await?;
        Ok(())
    }

    /// Waits until no request that needs the backend is served.
    async fn comes_to_close(&self) -> Result<()> {
        self.at("/secured").comes_to_answer(500).await?;
        self.at("/guarded").comes_to_answer(500).await?;
        self.through_proxy().comes_to_answer(500).await?;
        Ok(())
    }

    /// Waits until the backend gets this client certificate.
    async fn comes_to_present(&self, certificate: &Certificate) -> Result<()> {
        until("the certificate is presented", || async {
            self.at("/secured").reaches("secured").await?;
            ensure!(self.backend.saw_last(certificate), "it is not the one that was presented last");
            Ok(())
        })
        .await
    }
}

const NAMED: &str = "backend: {clientCertificateRef: {group: '', kind: Secret, name: own}}";

fn options(world: &World, more: &[&str]) -> Result<HoldfastOptions> {
    Ok(HoldfastOptions::new(world)?.args(&["--httpproxy-gateway", "default/public"]).args(more))
}

/// All uses of the backend present the certificate of the Gateway, a new one after it was renewed; another Gateway
/// presents none.
async fn backends_get_the_certificate(world: World) -> Result<()> {
    let shop = Shop::new(&world).await?;
    let (own, renewed) = (shop.authority.client("proxy", 2)?, shop.authority.client("renewed", 3)?);
    shop.gateways(&world, NAMED)?;
    world.write("own.yaml", own.secret("default", "own"))?;
    let holdfast = world.run_with(options(&world, &[])?).await?;
    shop.comes_to_serve().await?;
    shop.comes_to_present(&own).await?;
    ensure!(shop.backend.anonymous() == 0, "{} connections without a certificate", shop.backend.anonymous());
    get(shop.other, "/secured").host("shop.example.com").comes_to_reach("secured").await?;
    ensure!(shop.backend.anonymous() > 0, "the other Gateway presents a certificate");
    let neighbour = Hammer::start([shop.at("/plain")]);
    let own_requests = Hammer::start([shop.at("/secured")]);
    world.write("own.yaml", renewed.secret("default", "own"))?;
    shop.comes_to_present(&renewed).await?;
    own_requests.stop_expecting(Shot::is_ok).await?;
    // Without the field, the Gateway presents none.
    let before = shop.backend.anonymous();
    shop.gateways(&world, "")?;
    until("no certificate is presented", || async {
        shop.at("/secured").reaches("secured").await?;
        ensure!(shop.backend.anonymous() > before, "a certificate is presented");
        Ok(())
    })
    .await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    holdfast.terminate().await?;
    Ok(())
}

/// Whatever is wrong with the certificate, the backend, which serves clients without a certificate, gets no connection
/// without it; a route with a server that authorizes requests over TLS is closed, although this server fails open. Also
/// after a kill.
async fn backends_get_no_anonymous_connection(world: World) -> Result<()> {
    let shop = Shop::new(&world).await?;
    let own = shop.authority.client("proxy", 2)?;
    let good = || world.write("own.yaml", own.secret("default", "own"));
    shop.gateways(&world, NAMED)?;
    good()?;
    let mut holdfast = world.run_with(options(&world, &[])?).await?;
    shop.comes_to_serve().await?;
    let neighbour = Hammer::start([shop.at("/plain")]);
    let requests = Hammer::start([shop.at("/secured"), shop.at("/guarded"), shop.through_proxy()]);
    world.delete("own.yaml")?;
    shop.comes_to_close().await?;
    holdfast = world.run_with(holdfast.kill()?).await?;
    shop.at("/plain").comes_to_reach("plain").await?;
    shop.comes_to_close().await?;
    good()?;
    shop.comes_to_serve().await?;
    world.write("own.yaml", own.secret("default", "own").replace("tls.key", "tls.keys"))?;
    shop.comes_to_close().await?;
    good()?;
    shop.comes_to_serve().await?;
    let mistakes = [
        NAMED.replace("kind: Secret", "kind: ConfigMap"),
        NAMED.replace("name: own", "name: gone"),
        NAMED.replace("name: own", "name: own, namespace: vault"),
        NAMED.replace("clientCertificateRef", "clientCertificateRefs"),
        NAMED.replace("backend:", "backends:"),
        "backend: 1".to_owned(),
    ];
    for mistake in mistakes {
        shop.gateways(&world, &mistake)?;
        shop.comes_to_close().await?;
        shop.gateways(&world, NAMED)?;
        shop.comes_to_serve().await?;
    }
    requests.stop_expecting(|shot| shot.is_ok() || !shot.passed()).await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    ensure!(shop.backend.anonymous() == 0, "{} connections without a certificate", shop.backend.anonymous());
    holdfast.terminate().await?;
    Ok(())
}

/// With last valid versions, a broken certificate is presented in its last valid version, also after a kill, and not after
/// its Secret was deleted.
async fn last_valid_certificate(world: World) -> Result<()> {
    let shop = Shop::new(&world).await?;
    let own = shop.authority.client("proxy", 2)?;
    let key = world.folder().join("store.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4))?;
    shop.gateways(&world, NAMED)?;
    world.write("own.yaml", own.secret("default", "own"))?;
    let options = options(&world, &BACKFILL)?.args(&["--store-key-file", &key.display().to_string()]);
    let mut holdfast = world.run_with(options).await?;
    shop.comes_to_serve().await?;
    let requests = Hammer::start([shop.at("/secured"), shop.at("/guarded"), shop.through_proxy(), shop.at("/plain")]);
    holdfast.comes_to_store("core/Secret:default/own", 1).await?;
    world.write("own.yaml", own.secret("default", "own").replace("tls.key", "tls.keys"))?;
    until("the last valid version is reported", || async {
        let text = holdfast.diagnostics("/debug/config/fallback").await?.to_string();
        ensure!(text.contains("\"backfilledObjects\":[{") && text.contains("\"name\":\"own\""), "{text}");
        Ok(())
    })
    .await?;
    shop.comes_to_present(&own).await?;
    holdfast = world.run_with(holdfast.kill()?).await?;
    shop.comes_to_present(&own).await?;
    requests.stop_expecting(Shot::is_ok).await?;
    world.delete("own.yaml")?;
    shop.comes_to_close().await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    shop.at("/plain").comes_to_reach("plain").await?;
    shop.comes_to_close().await?;
    ensure!(shop.backend.anonymous() == 0, "{} connections without a certificate", shop.backend.anonymous());
    holdfast.terminate().await?;
    Ok(())
}

/// The certificate of the settings is presented to Services of HTTPProxies only, and a damaged one closes their routes.
async fn services_of_proxies_get_the_certificate(world: World) -> Result<()> {
    let shop = Shop::new(&world).await?;
    let own = shop.authority.client("proxy", 2)?;
    shop.gateways(&world, "")?;
    world.write("own.yaml", own.secret("default", "own"))?;
    let options = options(&world, &["--httpproxy-client-certificate", "default/own"])?;
    let holdfast = world.run_with(options).await?;
    shop.through_proxy().comes_to_reach("secured").await?;
    ensure!(shop.backend.saw_last(&own) && shop.backend.anonymous() == 0, "the certificate is not presented");
    shop.at("/secured").comes_to_reach("secured").await?;
    let anonymous = shop.backend.anonymous();
    ensure!(anonymous > 0, "the certificate is presented to a backend of an HTTPRoute");
    let neighbour = Hammer::start([shop.at("/plain")]);
    world.write("own.yaml", own.secret("default", "own").replace("tls.key", "tls.keys"))?;
    shop.through_proxy().comes_to("the route is closed", |reply| !reply.status.is_success()).await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    shop.at("/plain").comes_to_reach("plain").await?;
    ensure!(!shop.through_proxy().send().await?.status.is_success(), "the route is open after a kill");
    world.write("own.yaml", own.secret("default", "own"))?;
    shop.through_proxy().comes_to_reach("secured").await?;
    ensure!(shop.backend.anonymous() == anonymous, "an HTTPProxy connected without the certificate");
    neighbour.stop_expecting(Shot::is_ok).await?;
    holdfast.terminate().await?;
    Ok(())
}

/// Without isolation, a client certificate that only Envoy refuses closes what needs it, also authorization that fails
/// open: at the first start, after a kill, and when its Secret was deleted and is there again. Edits of others take effect
/// all the time, and the status names the Secret.
async fn refused_without_isolation(world: World) -> Result<()> {
    let shop = Shop::new(&world).await?;
    let own = shop.authority.client("proxy", 2)?;
    let refused = format!("{}\n{}", mistakes::KEY, own.pem);
    let refused = manifests::tls_secret("default", "own", &refused, &own.key_pem);
    let refused = || world.write("own.yaml", refused.as_str());
    shop.gateways(&world, NAMED)?;
    refused()?;
    let options = options(&world, &["--probe", "off"])?.without_envoy();
    let mut holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy { has_mistakes: true, ..FleetEnvoy::large("one") };
    let _envoy = envoy.start(&world, &options).await?;
    shop.at("/plain").comes_to_reach("plain").await?;
    shop.comes_to_close().await?;
    let neighbour = Hammer::start([shop.at("/plain")]);
    let requests = Hammer::start([shop.at("/secured"), shop.at("/guarded"), shop.through_proxy()]);
    names_the_secret(&world, &shop, &holdfast).await?;
    edit_takes_effect(&world, &shop, "first").await?;
    holdfast = world.run_with(holdfast.kill()?).await?;
    edit_takes_effect(&world, &shop, "second").await?;
    for version in ["third", "fourth"] {
        world.delete("own.yaml")?;
        shop.comes_to_close().await?;
        edit_takes_effect(&world, &shop, "deleted").await?;
        refused()?;
        edit_takes_effect(&world, &shop, version).await?;
        names_the_secret(&world, &shop, &holdfast).await?;
    }
    requests.goes_on(50).await?;
    requests.stop_expecting(|shot| !shot.passed()).await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    world.write("own.yaml", own.secret("default", "own"))?;
    shop.comes_to_serve().await?;
    ensure!(shop.backend.anonymous() == 0, "{} connections without a certificate", shop.backend.anonymous());
    holdfast.terminate().await?;
    Ok(())
}

/// Waits until the status, which reports an outage, and the explanation of a request name the Secret.
async fn names_the_secret(world: &World, shop: &Shop, holdfast: &Holdfast) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the status names the Secret", || async {
        let status = world.command(&["status", "--diagnostics", &address]).await?;
        status.expect_code(1)?.expect_output(&["Secret", "own", "/secured", "/guarded"]).map(drop)
    })
    .await?;
    let url = format!("http://shop.example.com:{}/secured", shop.port);
    let explain = ["explain", "GET", &url, "--gateway", "default/public", "--diagnostics", &address];
    let words = ["because of", "Secret default/own", "KEY_VALUES_MISMATCH"];
    world.command(&explain).await?.expect_code(1)?.expect_output(&words).map(drop)
}

/// Waits until an edit of another route is effective.
async fn edit_takes_effect(world: &World, shop: &Shop, version: &str) -> Result<()> {
    let rules = format!(
        "hostnames: [news.example.com]\nrules: [{{matches: [{{path: {{value: /{version}}}}}], \
         backendRefs: [{{name: plain, port: 8080}}]}}]\n"
    );
    world.write("news.yaml", manifests::route("HTTPRoute", "default", "news", "- {name: public}\n", &rules))?;
    get(shop.port, &format!("/{version}")).host("news.example.com").comes_to_reach("plain").await?;
    Ok(())
}
