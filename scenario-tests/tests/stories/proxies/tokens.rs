//! JWT verification of HTTPProxies, with fetched or local keys. Whatever is broken, no request passes without a token.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::names::{DnsAnswers, NameServer};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::surroundings::{self, NAME_SERVERS};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

use super::auth::{REFUSED_CONNECTION, certificate, comes_to_be_refused, request, secure};
use super::edited::{self, Edited};
use super::{ServedProxies, proxy, serve, serve_with};
use crate::policies::elsewhere::{Plain, own_address};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::tokens",
        true,
        [
            keys_that_are_fetched,
            keys_in_a_secret,
            keys_that_only_envoy_refuses,
            no_unauthorized_request_passes_during_edits,
            a_provider_that_is_not_defined,
            keys_at_names_that_lead_inside,
        ]
    )
}

const ROUTES: &str = "- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /open}]
  jwtVerificationPolicy: {disabled: true}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /second}]
  jwtVerificationPolicy: {require: second}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /plain}]
  permitInsecure: true
  services: [{name: echo, port: 8080}]";

async fn keys_that_are_fetched(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    // Two providers on one host: their tokens are accepted with their own keys only.
    let (first, second) = (TokenMaker::start("first").await?, TokenMaker::start("second").await?);
    let guard = format!(
        "jwtProviders:
- {{name: first, default: true, issuer: first, audiences: [shop], forwardJWT: true, remoteJWKS: {{uri: '{}', timeout: 5s}}}}
- {{name: second, issuer: second, remoteJWKS: {{uri: '{}', timeout: 5s, cacheDuration: 10m, dnsLookupFamily: v4}}}}",
        first.uri(),
        second.uri()
    );
    world.write("proxy.yaml", secure(&guard, ROUTES))?;
    let served = serve(&world).await?;
    let request = |path: &str| request(&served, &certificate, path);
    let (one, two) = (first.bearer("shop")?, second.bearer("anything")?);
    let reply = request("/").header("authorization", &one).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header("authorization") == [one.clone()], "the token is not passed on");
    let reply = request("/second").header("authorization", &two).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header("authorization").is_empty(), "the token is passed on");
    ensure!(first.key_requests() > 0 && second.key_requests() > 0, "the keys were not fetched");
    request("/open").reaches("echo").await?;
    for path in ["/", "/second", "/plain"] {
        request(path).answers(401).await?;
        request(path).header("authorization", "Bearer nonsense").answers(401).await?;
    }
    request("/").header("authorization", &two).answers(401).await?;
    request("/second").header("authorization", &one).answers(401).await?;
    // A valid token for another audience: 403.
    request("/").header("authorization", &first.bearer("other")?).answers(403).await?;
    for path in ["/", "/open", "/plain"] {
        served.get("shop.example.com", path).answers(301).await?;
    }
    served.comes_to_be("shop", "shop", "valid").await
}

fn keys_secret(keys: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys, namespace: shop}}\nstringData:\n  jwks.json: '{keys}'\n"
    )
}

const LOCAL: &str = "jwtProviders:
- {name: own, default: true, issuer: maker, localJWKS: {secretName: keys, key: jwks.json}}";

async fn keys_in_a_secret(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let (old, new) = (TokenMaker::start("maker").await?, TokenMaker::start("maker").await?);
    world.write("keys.yaml", keys_secret(&old.keys()?))?;
    world.write("proxy.yaml", secure(LOCAL, "- services: [{name: echo, port: 8080}]"))?;
    let served = serve(&world).await?;
    let with = |maker: &TokenMaker| {
        Ok::<_, anyhow::Error>(request(&served, &certificate, "/").header("authorization", &maker.bearer("x")?))
    };
    with(&old)?.comes_to_reach("echo").await?;
    with(&new)?.answers(401).await?;
    // Other keys: tokens of the old ones are not accepted any more, on any connection.
    let kept = with(&old)?;
    let mut connection = kept.connect().await?;
    ensure!(kept.send_on(&mut connection).await?.pod()? == "echo", "the connection does not work");
    world.write("keys.yaml", keys_secret(&new.keys()?))?;
    with(&new)?.comes_to_reach("echo").await?;
    with(&old)?.answers(401).await?;
    if let Ok(reply) = kept.send_on(&mut connection).await {
        ensure!(reply.pod().is_err(), "old keys are good on an old connection: {reply:?}");
    }
    // Without keys, and with private ones, the host is closed; the content of the Secret is never reported.
    world.delete("keys.yaml")?;
    with(&new)?.comes_to_answer(500).await?;
    let private = new.keys()?.replace("\"kty\"", "\"d\":\"c2VjcmV0LWtleQ\",\"kty\"");
    world.write("keys.yaml", keys_secret(&private))?;
    until("it is told of", || async {
        let statuses = served.holdfast.diagnostics("/debug/statuses").await?.to_string();
        ensure!(statuses.contains("contains a private or symmetric key"), "{statuses}");
        ensure!(!statuses.contains("c2VjcmV0LWtleQ"), "the key is shown");
        Ok(())
    })
    .await?;
    with(&new)?.answers(500).await?;
    world.write("keys.yaml", keys_secret(&new.keys()?))?;
    with(&new)?.comes_to_reach("echo").await.map(drop)
}

/// Without a probe: keys that only Envoy refuses close the routes that require tokens of their provider; nothing is
/// closed after the provider is gone, whether it is removed by an edit or the proxy is deleted and created.
async fn keys_that_only_envoy_refuses(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let routes = "- services: [{name: echo, port: 8080}]";
    let free = format!("virtualhost:\n  fqdn: free.example.com\nroutes:\n{routes}");
    world.write("free.yaml", proxy("shop", "free", &free))?;
    let keys = r#"{"keys":[{"kty":"EC","crv":"P-999","x":"AAAA","y":"AAAA","kid":"one"}]}"#;
    world.write("keys.yaml", keys_secret(keys))?;
    let flags = ["--probe", "off", "--feature-gates", "FallbackConfiguration=true"];
    let served = serve_with(&world, &flags).await?;
    served.get("free.example.com", "/").comes_to_reach("echo").await?;
    for is_deleted in [false, true] {
        world.write("proxy.yaml", secure(LOCAL, routes))?;
        until("it is found at fault", || async {
            let report = served.holdfast.diagnostics("/debug/config/fallback").await?;
            ensure!(report["brokenObjects"][0]["detectedBy"] == "nack", "{report}");
            Ok(())
        })
        .await?;
        served.get("free.example.com", "/").reaches("echo").await?;
        if is_deleted {
            world.delete("proxy.yaml")?;
            comes_to_be_refused(&request(&served, &certificate, "/")).await?;
        }
        world.write("proxy.yaml", secure("", routes))?;
        request(&served, &certificate, "/").comes_to_reach("echo").await?;
    }
    // A closed route is answered on the host's own chain.
    world.write("proxy.yaml", secure(LOCAL, routes))?;
    request(&served, &certificate, "/").comes_to_answer(404).await?;
    Ok(())
}

async fn no_unauthorized_request_passes_during_edits(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let maker = TokenMaker::start("maker").await?;
    let provider = |rest: &str| {
        format!(
            "jwtProviders:\n- {{name: own, default: true, issuer: maker, remoteJWKS: {{uri: '{}', timeout: 5s{rest}}}}}",
            maker.uri()
        )
    };
    let (served, whole) = edited::served(&world, &provider("")).await?;
    let bearer = maker.bearer("x")?;
    let request = |path: &str| request(&served, &certificate, path);
    let known = |path: &str| request(path).header("authorization", &bearer);
    let host = Edited::start(&world, (&served, whole), known, request).await?;
    let edits = [
        (provider(", cacheDuration: soon"), 500),
        (provider(", dnsLookupFamily: v5"), 500),
        (provider(", timeout: -1s").replace(", timeout: 5s", ""), 500),
        (provider(", cacheDuration: 1m"), 200),
        (provider("").replace("http://", "ftp://"), 500),
        (provider("").replace("remoteJWKS", "localJWKS"), REFUSED_CONNECTION),
        (provider("").replace("name: own, ", ""), 500),
        ("jwtProviders: nonsense".to_owned(), REFUSED_CONNECTION),
        (format!("{}\n- {{name: own}}", provider("")), 500),
        (provider("").replace("issuer: maker, ", "audiences: [x], "), 200),
    ];
    for (edit, status) in edits {
        host.edit(&edit, status).await?;
    }
    host.end().await
}

async fn a_provider_that_is_not_defined(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let maker = TokenMaker::start("maker").await?;
    let routes = "- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /guarded}]
  jwtVerificationPolicy: {require: nobody}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /both}]
  jwtVerificationPolicy: {require: own, disabled: true}
  services: [{name: echo, port: 8080}]";
    let own =
        format!("jwtProviders:\n- {{name: own, issuer: maker, remoteJWKS: {{uri: '{}', timeout: 5s}}}}", maker.uri());
    // Among other providers, and on a host without any provider.
    for guard in [own.as_str(), ""] {
        world.write("proxy.yaml", secure(guard, routes))?;
        let served = serve(&world).await?;
        let request = |path: &str| request(&served, &certificate, path).header("authorization", "Bearer x");
        request("/").comes_to_reach("echo").await?;
        request("/guarded").answers(404).await?;
        request("/both").answers(404).await?;
        served.comes_to_be("shop", "shop", "invalid").await?;
        let status = served.status("shop", "shop").await?.to_string();
        for reason in ["JWTProviderNotDefined", "InvalidJWTVerificationPolicy"] {
            ensure!(status.contains(reason), "{status}");
        }
        served.holdfast.terminate().await?;
    }
    Ok(())
}

/// Keys are fetched from a name that resolves to an outside address, and not from one that resolves to the proxy's own
/// host.
async fn keys_at_names_that_lead_inside(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let maker = TokenMaker::start("maker").await?;
    let inside = Plain::start(IpAddr::from(Ipv4Addr::LOCALHOST), "{\"keys\": []}").await?;
    let own = own_address().and_then(|address| if let IpAddr::V4(own) = address { Some(own) } else { None });
    let own = own.unwrap_or(Ipv4Addr::LOCALHOST);
    let outside = Plain::start(IpAddr::from(own), "{\"keys\": []}").await?;
    let answers = [("inside.names.test".to_owned(), Ipv4Addr::LOCALHOST), ("outside.names.test".to_owned(), own)];
    let names = NameServer::start(DnsAnswers::from(answers.map(|(name, address)| (name, vec![address])))).await?;
    let files = format!("nameserver {}\n", names.address);
    let envoy = surroundings::binary(&world, &[(NAME_SERVERS, &files)])?.display().to_string();
    let at = |name: &str, server: &Plain| format!("http://{name}.names.test:{}/keys", server.address.port());
    let guard = format!(
        "jwtProviders:
- {{name: first, default: true, issuer: maker, remoteJWKS: {{uri: '{}', timeout: 1s, dnsLookupFamily: v4}}}}
- {{name: second, issuer: maker, remoteJWKS: {{uri: '{}', timeout: 1s, dnsLookupFamily: v4}}}}",
        at("inside", &inside),
        at("outside", &outside)
    );
    world.write("proxy.yaml", secure(&guard, ROUTES))?;
    let token = maker.bearer("shop")?;
    let (http, https) = (world.port()?, world.port()?);
    let (first, second) = (http.to_string(), https.to_string());
    let ports = ["--httpproxy-http", &first, "--httpproxy-https", &second];
    let options = HoldfastOptions::new(&world)?.args(&ports).env("ENVOY_BIN", &envoy);
    let refusing = options.clone().args(&["--allow-loopback-backends=false"]);
    let served = ServedProxies { http, https, holdfast: world.run_with(refusing).await? };
    let with_token =
        |served: &ServedProxies, path: &str| request(served, &certificate, path).header("authorization", &token);
    let fetches_keys = async |served: &ServedProxies, path: &str, server: &Plain| {
        until(&format!("{path} fetches keys"), || async {
            with_token(served, path).answers(401).await?;
            ensure!(server.seen().iter().any(|request| request.contains("GET /keys")), "{:?}", server.seen());
            Ok(())
        })
        .await
    };
    if !own.is_loopback() {
        fetches_keys(&served, "/second", &outside).await?;
    }
    with_token(&served, "/").comes_to_answer(401).await?;
    for _ in 0..5 {
        with_token(&served, "/").answers(401).await?;
    }
    ensure!(inside.seen().is_empty(), "{:?}", inside.seen());
    served.holdfast.terminate().await?;
    let allowing = ServedProxies { http, https, holdfast: world.run_with(options).await? };
    fetches_keys(&allowing, "/", &inside).await
}
