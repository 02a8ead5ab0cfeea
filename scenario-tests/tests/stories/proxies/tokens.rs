//! Tokens: routes of HTTPProxies that ask for one, with keys that are fetched or written down. Whatever is broken about
//! it, nobody passes without one.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::asked::tokens::TokenMaker;
use holdfast_scenario_tests::{Story, World, stories, until};

use super::auth::{REFUSED_CONNECTION, ask, certificate, secure};
use super::edited::{self, Edited};
use super::serve;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::tokens",
        true,
        [keys_that_are_fetched, keys_in_a_secret, nobody_passes_while_it_is_edited, a_provider_that_is_not_defined]
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
    // Two makers on one host: what each signs is known by its own keys only.
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
    let ask = |path: &str| ask(&served, &certificate, path);
    let (one, two) = (first.bearer("shop")?, second.bearer("anything")?);
    let reply = ask("/").header("authorization", &one).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header("authorization") == [one.clone()], "the token is not passed on");
    let reply = ask("/second").header("authorization", &two).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header("authorization").is_empty(), "the token is passed on");
    ensure!(first.asked() > 0 && second.asked() > 0, "the keys were not fetched");
    ask("/open").reaches("echo").await?;
    for path in ["/", "/second", "/plain"] {
        ask(path).answers(401).await?;
        ask(path).header("authorization", "Bearer nonsense").answers(401).await?;
    }
    ask("/").header("authorization", &two).answers(401).await?;
    ask("/second").header("authorization", &one).answers(401).await?;
    // For another audience: who it is was known.
    ask("/").header("authorization", &first.bearer("other")?).answers(403).await?;
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
        Ok::<_, anyhow::Error>(ask(&served, &certificate, "/").header("authorization", &maker.bearer("x")?))
    };
    with(&old)?.comes_to_reach("echo").await?;
    with(&new)?.answers(401).await?;
    // Other keys: the old ones are worth nothing any more, on any connection.
    let kept = with(&old)?;
    let mut connection = kept.connect().await?;
    ensure!(kept.send_on(&mut connection).await?.pod()? == "echo", "the connection does not work");
    world.write("keys.yaml", keys_secret(&new.keys()?))?;
    with(&new)?.comes_to_reach("echo").await?;
    with(&old)?.answers(401).await?;
    if let Ok(reply) = kept.send_on(&mut connection).await {
        ensure!(reply.pod().is_err(), "old keys are good on an old connection: {reply:?}");
    }
    // Without keys, and with private ones, the host is closed; nobody is told what stands in the Secret.
    world.delete("keys.yaml")?;
    with(&new)?.comes_to_answer(500).await?;
    let private = new.keys()?.replace("\"kty\"", "\"d\":\"c2VjcmV0LWtleQ\",\"kty\"");
    world.write("keys.yaml", keys_secret(&private))?;
    until("it is told of", || async {
        let statuses = served.holdfast.diagnostics("/debug/statuses").await?.to_string();
        ensure!(statuses.contains("holds a private or secret key"), "{statuses}");
        ensure!(!statuses.contains("c2VjcmV0LWtleQ"), "the key is shown");
        Ok(())
    })
    .await?;
    with(&new)?.answers(500).await?;
    world.write("keys.yaml", keys_secret(&new.keys()?))?;
    with(&new)?.comes_to_reach("echo").await.map(drop)
}

async fn nobody_passes_while_it_is_edited(world: World) -> Result<()> {
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
    let ask = |path: &str| ask(&served, &certificate, path);
    let known = |path: &str| ask(path).header("authorization", &bearer);
    let host = Edited::start(&world, (&served, whole), known, ask).await?;
    let edits = [
        (provider(", cacheDuration: soon"), 500),
        (provider(", dnsLookupFamily: v5"), 500),
        (provider(", timeout: -1s").replace(", timeout: 5s", ""), 500),
        (provider(", cacheDuration: 1m"), 200),
        (provider("").replace("http://", "ftp://"), 500),
        (provider("").replace("remoteJWKS", "localJWKS"), 500),
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
    // Among others, and on a host that has none at all.
    for guard in [own.as_str(), ""] {
        world.write("proxy.yaml", secure(guard, routes))?;
        let served = serve(&world).await?;
        let ask = |path: &str| ask(&served, &certificate, path).header("authorization", "Bearer x");
        ask("/").comes_to_reach("echo").await?;
        ask("/guarded").answers(404).await?;
        ask("/both").answers(404).await?;
        served.comes_to_be("shop", "shop", "invalid").await?;
        let status = served.status("shop", "shop").await?.to_string();
        for reason in ["JWTProviderNotDefined", "InvalidJWTVerificationPolicy"] {
            ensure!(status.contains(reason), "{status}");
        }
        served.holdfast.terminate().await?;
    }
    Ok(())
}
