//! Backend policies: TLS to backends, which is never omitted; settings of single backends, which affect no other
//! backend; Backends by host.

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, manifests, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::backends",
        true,
        [
            tls_or_nothing,
            certificates_are_shown,
            a_policy_that_only_envoy_refuses,
            a_policy_touches_its_backend_alone,
            breakers,
            hashes,
            hosts,
        ]
    )
}

/// The name in the certificate of the backend.
const NAME: &str = "shop.clients.example.com";

/// Writes the route with a rule for each of these Services.
fn route(world: &World, services: &[&str]) -> Result<()> {
    let rules = services.iter().map(|name| {
        format!("- matches: [{{path: {{value: /{name}}}}}]\n  backendRefs: [{{name: {name}, port: 8080}}]\n")
    });
    world.route("r", &format!("rules:\n{}", rules.collect::<String>()))
}

fn config_map(world: &World, name: &str, authority: &StoryAuthority) -> Result<()> {
    let text = manifests::indent(&authority.pem, 4);
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata:\n  ca.crt: |\n{text}"
    );
    world.write(&format!("authorities-{name}.yaml"), map)
}

fn tls_policy(world: &World, service: &str, validation: &str) -> Result<()> {
    let policy = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
         metadata: {{name: tls, namespace: default}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: {service}}}], validation: {{{validation}}}}}\n"
    );
    world.write("tls.yaml", policy)
}

fn config(world: &World, service: &str, spec: &str) -> Result<()> {
    let policy = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
         metadata: {{name: {service}, namespace: default}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: {service}}}], {spec}}}\n"
    );
    world.write(&format!("config-{service}.yaml"), policy)
}

fn map_validation(map: &str, more: &str) -> String {
    format!("caCertificateRefs: [{{group: '', kind: ConfigMap, name: {map}}}], {more}")
}

/// Whatever is wrong with a policy, no byte goes to the backend without TLS; other backends are served.
async fn tls_or_nothing(world: World) -> Result<()> {
    let (authority, untrusted) = (StoryAuthority::new("backends")?, StoryAuthority::new("untrusted")?);
    let certificate = authority.client("shop", 1)?;
    let echo = world.pod("default", "secured", "secured").await?;
    let secured = Secured::start(&certificate, None, echo.address()).await?;
    let _other = world.backend("other").await?;
    world.write("secured.yaml", manifests::service("default", "secured", None, &[secured.address]))?;
    config_map(&world, "ca", &authority)?;
    config_map(&world, "wrong", &untrusted)?;
    let good = map_validation("ca", &format!("hostname: {NAME}"));
    tls_policy(&world, "secured", &good)?;
    let port = world.gateway()?;
    route(&world, &["secured", "other"])?;
    let _holdfast = world.run().await?;
    let request = get(port, "/secured");
    request.comes_to_reach("secured").await?;
    ensure!(secured.names().into_iter().eq([NAME.to_owned()]), "{:?}", secured.names());
    get(port, "/other").comes_to_reach("other").await?;
    let (all, others) = (Hammer::start([request.clone()]), Hammer::start([get(port, "/other")]));

    // With another name the handshake fails; with the URI in the certificate it succeeds again.
    tls_policy(&world, "secured", &map_validation("ca", "hostname: other.example.com"))?;
    request.comes_to_answer(503).await?;
    let by_uri = "hostname: other.example.com, subjectAltNames: [{type: URI, uri: 'spiffe://example.com/shop'}]";
    tls_policy(&world, "secured", &map_validation("ca", by_uri))?;
    request.comes_to_reach("secured").await?;
    ensure!(secured.names().contains("other.example.com"), "{:?}", secured.names());
    let broken = [
        (map_validation("wrong", &format!("hostname: {NAME}")), 503),
        (map_validation("nobody", &format!("hostname: {NAME}")), 500),
        (format!("wellKnownCACertificates: Mine, hostname: {NAME}"), 500),
        (format!("{good}, strange: 1"), 500),
        ("hostname: [1]".to_owned(), 500),
    ];
    for (validation, status) in broken {
        tls_policy(&world, "secured", &validation)?;
        request.comes_to_answer(status).await.with_context(|| validation.clone())?;
        tls_policy(&world, "secured", &good)?;
        request.comes_to_reach("secured").await?;
    }
    world.delete("authorities-ca.yaml")?;
    request.comes_to_answer(500).await?;
    config_map(&world, "ca", &authority)?;
    request.comes_to_reach("secured").await?;
    // A policy that exists and cannot be parsed.
    world.write("tls.yaml", "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: tls, namespace: default}\nspec: [\n")?;
    for _ in 0..20 {
        request.reaches("secured").await?;
    }
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    all.stop_expecting(|shot| shot.is_ok() || !shot.passed()).await?;
    others.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

/// The proxy presents a client certificate that a backend requires, and the new one after renewal.
async fn certificates_are_shown(world: World) -> Result<()> {
    let authority = StoryAuthority::new("everybody")?;
    let (certificate, own, untrusted) =
        (authority.client("shop", 1)?, authority.client("proxy", 2)?, Certificate::of(&["untrusted.example.com"])?);
    let echo = world.pod("default", "secured", "secured").await?;
    let secured = Secured::start(&certificate, Some(&authority), echo.address()).await?;
    world.write("secured.yaml", manifests::service("default", "secured", None, &[secured.address]))?;
    let secret = |shown: &Certificate| {
        let entry = |name: &str, text: &str| format!("  {name}: |\n{}", manifests::indent(text, 4));
        let (ca, chain, key) = (&authority.pem, &shown.pem, &shown.key_pem);
        let entries = [entry("ca.crt", ca), entry("tls.crt", chain), entry("tls.key", key)].concat();
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: own, namespace: default}}\nstringData:\n{entries}"
        );
        world.write("own.yaml", text)
    };
    secret(&own)?;
    config(
        &world,
        "secured",
        &format!("tls: {{secretRef: {{name: own}}, sni: {NAME}, verifySubjectAltNames: [{NAME}]}}"),
    )?;
    let port = world.gateway()?;
    route(&world, &["secured"])?;
    let _holdfast = world.run().await?;
    let request = get(port, "/secured");
    request.comes_to_reach("secured").await?;
    ensure!(secured.shown() > 0, "no certificate was shown");
    config(&world, "secured", &format!("tls: {{secretRef: {{name: own}}, sni: {NAME}, simpleTLS: true}}"))?;
    request.comes_to_answer(503).await?;
    // An open connection stays open, whatever happens to the certificate.
    let no_reuse = "commonHttpProtocolOptions: {maxRequestsPerConnection: 1}";
    config(&world, "secured", &format!("{no_reuse}, tls: {{secretRef: {{name: own}}, sni: {NAME}}}"))?;
    request.comes_to_reach("secured").await?;
    secret(&untrusted)?;
    request.comes_to("a new connection is refused", |reply| !reply.status.is_success()).await?;
    secret(&own)?;
    request.comes_to_reach("secured").await?;
    world.delete("own.yaml")?;
    request.comes_to_answer(500).await?;
    ensure!(secured.plain() == 0, "{} connections came without TLS", secured.plain());
    Ok(())
}

/// Broken objects are isolated.
const FALLBACK: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];

/// A policy that only Envoy refuses closes the rules that use the backend; other rules are served, and it recovers.
async fn a_policy_that_only_envoy_refuses(world: World) -> Result<()> {
    for probe in [&["--probe=off"][..], &[]] {
        let (_one, _two) = (world.backend("one").await?, world.backend("two").await?);
        let port = world.gateway()?;
        config(&world, "one", "connectTimeout: 1s")?;
        route(&world, &["one", "two"])?;
        let options = HoldfastOptions::new(&world)?.args(&[&FALLBACK, probe].concat());
        let holdfast = world.run_with(options).await?;
        let (one, two) = (get(port, "/one"), get(port, "/two"));
        one.comes_to_reach("one").await?;
        two.comes_to_reach("two").await?;
        let others = Hammer::start([two.clone()]);
        let wrong = ["cipherSuites: [NO-SUCH-CIPHER]", "ecdhCurves: [P-0]"];
        for parameters in wrong {
            config(&world, "one", &format!("tls: {{insecureSkipVerify: true, parameters: {{{parameters}}}}}"))?;
            one.comes_to_answer(404).await?;
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            let text = report.to_string();
            ensure!(report["brokenObjects"][0]["kind"] == "BackendConfigPolicy", "{text}");
            config(&world, "one", "connectTimeout: 2s")?;
            one.comes_to_reach("one").await?;
        }
        others.stop_expecting(|shot| shot.is_ok()).await?;
        holdfast.terminate().await?;
    }
    Ok(())
}

/// One backend is closed because of its policy, also as a share of a route, and nothing else.
async fn a_policy_touches_its_backend_alone(world: World) -> Result<()> {
    let (_one, _two) = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route(
        "r",
        "rules:
- matches: [{path: {value: /one}}]
  backendRefs: [{name: one, port: 8080}]
- matches: [{path: {value: /two}}]
  backendRefs: [{name: two, port: 8080}]
- matches: [{path: {value: /both}}]
  backendRefs: [{name: one, port: 8080}, {name: two, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let (one, two, both) = (get(port, "/one"), get(port, "/two"), get(port, "/both"));
    one.comes_to_reach("one").await?;
    two.comes_to_reach("two").await?;
    let others = Hammer::start([two.clone()]);
    for spec in ["connectTimeout: 0s", "strange: 1", "tls: {secretRef: {name: nobody}}", "loadBalancer: {}"] {
        config(&world, "one", spec)?;
        one.comes_to_answer(500).await?;
        both.comes_to_answer(500).await?;
        both.comes_to_reach("two").await?;
        config(&world, "one", "connectTimeout: 1s")?;
        one.comes_to_reach("one").await?;
        both.comes_to_reach("one").await?;
    }
    others.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

/// Requests above the limit are refused at once.
async fn breakers(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    config(&world, "one", "circuitBreakers: {maxConnections: 1, maxPendingRequests: 1, maxRequests: 1}")?;
    route(&world, &["one"])?;
    let _holdfast = world.run().await?;
    let request = get(port, "/one?delay=300ms");
    request.comes_to_reach("one").await?;
    let overloaded = || async {
        let replies = join_all((0..10).map(|_| request.send())).await;
        let replies = replies.into_iter().collect::<Result<Vec<_>>>()?;
        anyhow::Ok(replies.iter().filter(|reply| reply.header("x-envoy-overloaded") == "true").count())
    };
    ensure!(overloaded().await? > 0, "nothing was refused");
    config(&world, "one", "circuitBreakers: {maxConnections: 100}")?;
    holdfast_scenario_tests::until("nothing is refused", || async {
        let count = overloaded().await?;
        ensure!(count == 0, "{count} are refused");
        Ok(())
    })
    .await
}

/// Equal headers lead to the same endpoint.
async fn hashes(world: World) -> Result<()> {
    let mut pods = Vec::new();
    for name in ["a", "b", "c"] {
        pods.push(world.pod("default", "many", name).await?);
    }
    let addresses: Vec<_> = pods.iter().map(|pod| pod.address()).collect();
    let balancers = ["ringHash", "maglev"];
    for balancer in balancers {
        let name = balancer.to_lowercase();
        world.write(&format!("{name}.yaml"), manifests::service("default", &name, None, &addresses))?;
        let by = format!("loadBalancer: {{{balancer}: {{hashPolicies: [{{header: {{name: x-user}}}}]}}}}");
        config(&world, &name, &by)?;
    }
    let port = world.gateway()?;
    route(&world, &balancers.map(str::to_lowercase).each_ref().map(String::as_str))?;
    let _holdfast = world.run().await?;
    for balancer in balancers {
        let path = format!("/{}", balancer.to_lowercase());
        let request = |user: usize| get(port, &path).header("x-user", &user.to_string());
        request(0).comes_to_answer(200).await?;
        let mut all = std::collections::BTreeSet::new();
        for user in 0..20 {
            let first = request(user).send().await?.pod()?;
            for _ in 0..5 {
                request(user).reaches(&first).await?;
            }
            all.insert(first);
        }
        ensure!(all.len() > 1, "all users are at {all:?}");
    }
    Ok(())
}

/// Backends by address and by name, which follow an edit.
async fn hosts(world: World) -> Result<()> {
    let (one, two) = (world.pod("default", "one", "one").await?, world.pod("default", "two", "two").await?);
    let backend = |name: &str, hosts: &str| {
        world.write(
            &format!("backend-{name}.yaml"),
            format!(
                "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: Backend\n\
                 metadata: {{name: {name}, namespace: default}}\nspec: {{static: {{hosts: [{hosts}]}}}}\n"
            ),
        )
    };
    let by_address = |port: u16| format!("{{host: 127.0.0.1, port: {port}}}");
    let by_name = |port: u16| format!("{{host: localhost, port: {port}}}");
    backend("address", &by_address(one.address().port()))?;
    backend("name", &by_name(one.address().port()))?;
    let port = world.gateway()?;
    world.route(
        "r",
        "rules:
- matches: [{path: {value: /address}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: address}]
- matches: [{path: {value: /name}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: name}]",
    )?;
    let _holdfast = world.run().await?;
    let requests: [HttpRequest; 2] = [get(port, "/address"), get(port, "/name")];
    for request in &requests {
        request.comes_to_reach("one").await?;
    }
    backend("address", &by_address(two.address().port()))?;
    backend("name", &by_name(two.address().port()))?;
    for request in &requests {
        request.comes_to_reach("two").await?;
    }
    backend("address", "{host: 169.254.169.254, port: 80}")?;
    world.delete("backend-name.yaml")?;
    for request in &requests {
        request.comes_to_answer(500).await?;
    }
    Ok(())
}
