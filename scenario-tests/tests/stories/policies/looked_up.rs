//! Backends by name: names with several addresses, some of which are denied, and servers that must present a
//! certificate for the name from an authority that the proxy's system trusts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::names::{DnsAnswers, NameServer};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::surroundings::{self, AUTHORITIES, NAME_SERVERS};
use holdfast_scenario_tests::tls::StoryAuthority;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

use super::elsewhere::{Plain, backend, own_address, route};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::looked_up",
        true,
        [
            names_with_several_addresses,
            hosts_by_names_that_lead_inside,
            anywhere_by_tls_to_hosts_that_prove_their_name,
            functions_by_tls_to_hosts_that_prove_their_name
        ]
    )
}

/// Number of requests to each name: Envoy selects among its addresses.
const TIMES: usize = 10;
const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// For a name with a denied address and another one, only the other one is connected to: the denied one neither first,
/// nor last, nor after a timeout of the other one.
async fn names_with_several_addresses(world: World) -> Result<()> {
    let own = own_address().and_then(|address| if let IpAddr::V4(own) = address { Some(own) } else { None });
    let outside = match own {
        Some(own) => Some(Plain::start(IpAddr::from(own), "outside").await?),
        None => None,
    };
    // At the same port as the outside server, and at one where the outside address does not answer.
    let port = outside.as_ref().map_or(0, |outside| outside.address.port());
    let inside = Plain::at(SocketAddr::from((LOCAL, port)), "inside").await?;
    let behind_silence = Plain::start(IpAddr::from(LOCAL), "inside").await?;
    let mut answers = DnsAnswers::from([
        ("refused.names.test".into(), vec![LOCAL, METADATA]),
        ("refused-twice.names.test".into(), vec![METADATA, LOCAL]),
    ]);
    if let Some(own) = own {
        answers.insert("first.names.test".into(), vec![LOCAL, METADATA, own]);
        answers.insert("last.names.test".into(), vec![own, LOCAL]);
    }
    let names: Vec<String> = answers.keys().cloned().collect();
    let server = NameServer::start(answers).await?;
    let envoy = surroundings::binary(&world, &[(NAME_SERVERS, &format!("nameserver {}\n", server.address))])?;
    backend(&world, "anywhere", "dynamicForwardProxy: {}")?;
    let listener = world.gateway()?;
    world.route(
        "r",
        "rules:
- matches: [{path: {value: /ready}}]
  filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /}}}]
- matches: [{path: {value: /anywhere}}]
  backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: anywhere}]",
    )?;
    let options = HoldfastOptions::new(&world)?.args(&["--allow-loopback-backends=false"]);
    let _holdfast = world.run_with(options.env("ENVOY_BIN", &envoy.display().to_string())).await?;
    get(listener, "/ready").comes_to_answer(302).await?;
    for name in &names {
        for _ in 0..TIMES {
            let request = |at: &Plain| get(listener, "/anywhere").host(&format!("{name}:{}", at.address.port()));
            let reply = request(&inside).send().await?;
            let expected = if name.starts_with("refused") { 503 } else { 200 };
            ensure!(reply.status == expected, "{name}: {reply:?}");
            let reply = request(&behind_silence).send().await?;
            ensure!(reply.status == 503, "{name}, silent: {reply:?}");
        }
    }
    for server in [&inside, &behind_silence] {
        ensure!(server.seen().is_empty(), "{:?}", server.seen());
    }
    if let Some(outside) = outside {
        ensure!(outside.seen().len() == 2 * TIMES, "{:?}", outside.seen());
    }
    let queried = server.queried();
    names.iter().try_for_each(|name| queried.get(name).map(drop).with_context(|| format!("{name} was not asked for")))
}

/// Static hosts by names that resolve to the proxy's own host or to the metadata service: no request reaches these, not
/// through a group of Backends either; a host that resolves to another address is reached. Where the operator allows
/// loopback, it is reached.
async fn hosts_by_names_that_lead_inside(world: World) -> Result<()> {
    let own = own_address().and_then(|address| if let IpAddr::V4(own) = address { Some(own) } else { None });
    let inside = Plain::start(IpAddr::from(LOCAL), "inside").await?;
    let outside = match own {
        Some(own) => Some(Plain::start(IpAddr::from(own), "outside").await?),
        None => None,
    };
    let mut answers =
        DnsAnswers::from([("loopback.names.test".into(), vec![LOCAL]), ("metadata.names.test".into(), vec![METADATA])]);
    answers.extend(own.map(|own| ("outside.names.test".to_owned(), vec![own])));
    let server = NameServer::start(answers).await?;
    let envoy = surroundings::binary(&world, &[(NAME_SERVERS, &format!("nameserver {}\n", server.address))])?;
    let host = |name: &str, port: u16| format!("static: {{hosts: [{{host: {name}.names.test, port: {port}}}]}}");
    backend(&world, "loopback", &host("loopback", inside.address.port()))?;
    backend(&world, "metadata", &host("metadata", 80))?;
    backend(&world, "group", "priorityGroups: [{backendRefs: [{name: loopback}]}]")?;
    let mut names = vec!["loopback", "metadata", "group"];
    if let Some(outside) = &outside {
        backend(&world, "outside", &host("outside", outside.address.port()))?;
        names.push("outside");
    }
    let listener = world.gateway()?;
    route(&world, &names)?;
    let options = HoldfastOptions::new(&world)?.env("ENVOY_BIN", &envoy.display().to_string());
    let refusing = world.run_with(options.clone().args(&["--allow-loopback-backends=false"])).await?;
    if outside.is_some() {
        get(listener, "/outside").comes_to_answer(200).await?;
    }
    for path in ["/loopback", "/metadata", "/group"] {
        get(listener, path).comes_to_answer(403).await?;
        for _ in 0..TIMES {
            get(listener, path).answers(403).await?;
        }
    }
    ensure!(inside.seen().is_empty(), "{:?}", inside.seen());
    refusing.terminate().await?;
    let _allowing = world.run_with(options).await?;
    get(listener, "/loopback").comes_to_answer(200).await?;
    get(listener, "/metadata").answers(403).await?;
    Ok(())
}

/// Two authorities, one of which the system trusts.
struct AuthorityPair {
    trusted: StoryAuthority,
    other: StoryAuthority,
    envoy: String,
}

fn authorities(world: &World) -> Result<AuthorityPair> {
    let (trusted, other) = (StoryAuthority::new("trusted")?, StoryAuthority::new("other")?);
    let envoy = surroundings::binary(world, &[(AUTHORITIES, &trusted.pem)])?.display().to_string();
    Ok(AuthorityPair { trusted, other, envoy })
}

/// With `enableTls`, requests reach only servers with a certificate for the requested name from an authority of the
/// system: neither a certificate of another authority nor one for another name is accepted.
async fn anywhere_by_tls_to_hosts_that_prove_their_name(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let AuthorityPair { trusted, other, envoy } = authorities(&world)?;
    let proves = Secured::start(&trusted.server(&["localhost"])?, None, echo.address()).await?;
    let untrusted = Secured::start(&other.server(&["localhost"])?, None, echo.address()).await?;
    let misnamed = Secured::start(&trusted.server(&["elsewhere.test"])?, None, echo.address()).await?;
    backend(&world, "secure", "dynamicForwardProxy: {enableTls: true}")?;
    let port = world.gateway()?;
    route(&world, &["secure"])?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.env("ENVOY_BIN", &envoy)).await?;
    let request = |at: &Secured| get(port, "/secure").host(&format!("localhost:{}", at.address.port()));
    request(&proves).comes_to_reach("echo").await?;
    ensure!(proves.names().contains("localhost"), "{:?}", proves.names());
    let before = echo.count(|_| true);
    for wrong in [&untrusted, &misnamed] {
        for _ in 0..3 {
            let reply = request(wrong).send().await?;
            ensure!(reply.status == 503, "{reply:?}");
        }
    }
    for wrong in [&untrusted, &misnamed] {
        was_looked_at(wrong).await?;
    }
    ensure!(echo.count(|_| true) == before, "a request went to somebody who proved nothing");
    request(&proves).reaches("echo").await?;
    ensure!(proves.plain() + untrusted.plain() + misnamed.plain() == 0, "connections came without TLS");
    Ok(())
}

/// Waits until a client has ended the handshake after it received the certificate.
async fn was_looked_at(wrong: &Secured) -> Result<()> {
    until("it looked at the certificate", || async {
        ensure!(wrong.broken_off() > 0, "nobody left");
        Ok(())
    })
    .await
}

/// Functions: a signed call is sent only to a server with a valid certificate for the name.
async fn functions_by_tls_to_hosts_that_prove_their_name(world: World) -> Result<()> {
    let aws = Plain::start(IpAddr::from(LOCAL), r#"{"statusCode": 201, "body": "made"}"#).await?;
    let AuthorityPair { trusted, other, envoy } = authorities(&world)?;
    let proves = Secured::start(&trusted.server(&["localhost"])?, None, aws.address).await?;
    let untrusted = Secured::start(&other.server(&["localhost"])?, None, aws.address).await?;
    let misnamed = Secured::start(&trusted.server(&["elsewhere.test"])?, None, aws.address).await?;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: aws, namespace: default}\n\
                  stringData: {accessKey: AKIDONE, secretKey: canary-of-the-key}\n";
    world.write("aws.yaml", secret)?;
    for (name, at) in [("proves", &proves), ("untrusted", &untrusted), ("misnamed", &misnamed)] {
        let spec = format!(
            "aws: {{region: eu-west-1, accountId: '123456789012', auth: {{type: Secret, secretRef: {{name: aws}}}}, \
             lambda: {{functionName: f, endpointURL: 'https://localhost:{}'}}}}",
            at.address.port()
        );
        backend(&world, name, &spec)?;
    }
    let port = world.gateway()?;
    route(&world, &["proves", "untrusted", "misnamed"])?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.env("ENVOY_BIN", &envoy)).await?;
    get(port, "/proves").comes_to_answer(201).await?;
    let before = aws.seen().len();
    for wrong in ["/untrusted", "/misnamed"] {
        for _ in 0..3 {
            let reply = get(port, wrong).send().await?;
            ensure!(reply.status == 503, "{wrong}: {reply:?}");
        }
    }
    for wrong in [&untrusted, &misnamed] {
        was_looked_at(wrong).await?;
    }
    ensure!(aws.seen().len() == before, "called at a place that proved nothing");
    get(port, "/proves").answers(201).await?;
    ensure!(proves.plain() + untrusted.plain() + misnamed.plain() == 0, "connections came without TLS");
    Ok(())
}
