//! Weights, web sockets, and health checks at another port.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::{Story, World, manifests, stories, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{proxy, serve};

/// With this number of requests and the bounds below, a fair distribution fails less than once in a million runs.
const REQUESTS: u32 = 400;

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::requests", true, [weights_of_services, web_sockets, health_is_checked_at_another_port])
}

async fn weights_of_services(world: World) -> Result<()> {
    let (most, few) = (world.backend_in("shop", "most", None).await?, world.backend_in("shop", "few", None).await?);
    let copies = world.backend_in("shop", "copies", None).await?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /weighted}]
  services: [{name: most, port: 8080, weight: 80}, {name: few, port: 8080, weight: 20}, {name: copies, port: 8080}]
- conditions: [{prefix: /even}]
  services: [{name: most, port: 8080}, {name: few, port: 8080}]
- conditions: [{prefix: /copied}]
  services: [{name: most, port: 8080}, {name: copies, port: 8080, mirror: true, weight: 25}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    let between = |what: &str, count: u64, least: u64, most: u64| {
        ensure!((least..=most).contains(&count), "{what} has {count} of {REQUESTS}, not {least} to {most}");
        Ok(())
    };
    for (path, few_least, few_most) in [("/weighted", 35, 135), ("/even", 140, 260), ("/copied", 0, 0)] {
        let request = served.get("example.com", path);
        request.comes_to_answer(200).await?;
        [&most, &few, &copies].iter().for_each(|echo| echo.forget());
        let before = (most.received(), few.received(), copies.received());
        let mut connection = request.connect().await?;
        for _ in 0..REQUESTS {
            ensure!(request.send_on(&mut connection).await?.status.is_success(), "a request to {path} failed");
        }
        let share = few.received() - before.1;
        between(path, share, few_least, few_most)?;
        ensure!(most.received() - before.0 + share == u64::from(REQUESTS), "requests to {path} went elsewhere");
        if path == "/copied" {
            until("copies arrive", || async { between("the mirror", copies.received() - before.2, 45, 165) }).await?;
        } else {
            // A Service of weight 0 beside others receives nothing.
            ensure!(copies.received() == before.2, "{path} reaches a Service without weight");
        }
    }
    Ok(())
}

/// Starts a server that accepts any upgrade and echoes its input.
async fn upgrading() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                head(&mut stream).await?;
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
                stream.write_all(answer.as_bytes()).await?;
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await?;
                anyhow::Ok(())
            });
        }
    });
    Ok(address)
}

/// Reads up to the end of a head.
async fn head(stream: &mut TcpStream) -> Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.context("the connection ended within a head")?);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

async fn web_sockets(world: World) -> Result<()> {
    let address = upgrading().await?;
    world.write("service.yaml", manifests::service("shop", "sockets", None, &[address]))?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /ready}]
  directResponsePolicy: {statusCode: 200}
- conditions: [{prefix: /socket}]
  enableWebsockets: true
  services: [{name: sockets, port: 8080}]
- services: [{name: sockets, port: 8080}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/ready").comes_to_answer(200).await?;
    let port = served.http;
    let handshake = |path: &'static str| async move {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: example.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let head = head(&mut stream).await?;
        anyhow::Ok((head, stream))
    };
    let (answer, mut stream) = handshake("/socket/a").await?;
    ensure!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    for words in ["there", "and back"] {
        stream.write_all(words.as_bytes()).await?;
        let mut back = vec![0; words.len()];
        stream.read_exact(&mut back).await?;
        ensure!(back == words.as_bytes(), "{back:?}");
    }
    // Without a configured upgrade, the request stays HTTP.
    let (answer, _) = handshake("/other").await?;
    ensure!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    Ok(())
}

async fn health_is_checked_at_another_port(world: World) -> Result<()> {
    let (front, health) = (world.pod("shop", "app", "front").await?, world.pod("shop", "app", "health").await?);
    let service = format!(
        r#"apiVersion: v1
kind: Service
metadata: {{name: app, namespace: shop}}
spec: {{ports: [{{name: http, port: 8080}}, {{name: health, port: 8081}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: app-1, namespace: shop, labels: {{kubernetes.io/service-name: app}}}}
addressType: IPv4
ports: [{{name: http, port: {}}}, {{name: health, port: {}}}]
endpoints: [{{addresses: ["127.0.0.1"], conditions: {{ready: true}}}}]
"#,
        front.address().port(),
        health.address().port()
    );
    world.write("service.yaml", service)?;
    let spec = "virtualhost: {fqdn: example.com}
routes:
- healthCheckPolicy: {path: /healthz, intervalSeconds: 1}
  services: [{name: app, port: 8080, healthPort: 8081}]";
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/").comes_to_reach("front").await?;
    until("health is asked", || async {
        ensure!(health.count(|request| request.request.path == "/healthz") > 0, "nobody asks");
        Ok(())
    })
    .await?;
    ensure!(front.count(|request| request.request.path == "/healthz") == 0, "health is asked at the Service's port");
    Ok(())
}
