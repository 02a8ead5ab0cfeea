//! The examples of the documentation: each file is served, and the requests in its comment get the stated responses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

/// A story for each file.
macro_rules! files {
    ($($story:ident: $file:literal),* $(,)?) => {
        const FILES: &[&str] = &[$($file),*];

        $(async fn $story(world: World) -> Result<()> {
            served(&world, $file).await
        })*

        pub(crate) fn stories() -> Vec<Story> {
            let files = stories!("examples", true, [$($story),*]);
            [files, stories!("examples", false, [every_file_has_a_story])].concat()
        }
    };
}

files! {
    gateway: "gateway",
    http_route: "http-route",
    https: "https",
    tcp_route: "tcp-route",
    basic_auth: "basic-auth",
    httpproxy: "httpproxy",
    broken_rule: "broken-rule",
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");

async fn every_file_has_a_story(_: World) -> Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.extend(name.strip_suffix(".yaml").map(str::to_owned));
    }
    found.sort();
    let mut expected = FILES.to_vec();
    expected.sort_unstable();
    ensure!(found == expected, "{found:?}");
    Ok(())
}

/// A request in the comment of a file, with the stated response.
struct StatedRequest {
    scheme: String,
    host: String,
    port: u16,
    path: String,
    header: Option<(String, String)>,
    status: u16,
    /// Names of the backends that may answer; empty if none does.
    from: Vec<String>,
}

impl StatedRequest {
    /// Reads `GET http://HOST:PORT/PATH with NAME: VALUE -> STATUS from BACKEND or BACKEND`.
    fn read(line: &str) -> Option<Result<Self>> {
        let rest = line.strip_prefix("# GET ")?;
        Some(Self::parsed(rest).with_context(|| format!("cannot read {line:?}")))
    }

    fn parsed(text: &str) -> Result<Self> {
        let (request, response) = text.split_once(" -> ").context("no response")?;
        let (url, header) = request.split_once(" with ").map_or((request, None), |(url, header)| (url, Some(header)));
        let (scheme, rest) = url.split_once("://").context("no scheme")?;
        let (authority, path) = rest.split_once('/').context("no path")?;
        let (host, port) = authority.split_once(':').context("no port")?;
        let (status, from) = response.split_once(" from ").unwrap_or((response, ""));
        let header = header.map(|header| header.split_once(": ").context("no value of the header")).transpose()?;
        Ok(Self {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port: port.parse()?,
            path: format!("/{path}"),
            header: header.map(|(name, value)| (name.to_owned(), value.to_owned())),
            status: status.parse()?,
            from: from.split(" or ").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        })
    }

    async fn is_answered(&self, ports: &BTreeMap<u16, u16>, certificate: &Certificate) -> Result<()> {
        let port = ports.get(&self.port).context("a port that no file has")?;
        let mut request = get(*port, &self.path).host(&self.host);
        if let Some((name, value)) = &self.header {
            request = request.header(name, value);
        }
        if self.scheme == "https" {
            request = request.tls(certificate.trust(&self.host));
        }
        until(&format!("{} answers {}", self.path, self.status), || async {
            let reply = request.answers(self.status).await?;
            let is_from = self.from.iter().any(|name| reply.body.contains(&format!("\"pod\":\"{name}\"")));
            ensure!(self.from.is_empty() || is_from, "not from {:?}: {}", self.from, reply.body);
            Ok(())
        })
        .await
    }
}

/// Serves a file, with the Gateway if it needs that, and sends its requests.
async fn served(world: &World, name: &str) -> Result<()> {
    let text = |name: &str| fs::read_to_string(Path::new(FOLDER).join(format!("{name}.yaml")));
    let file = text(name)?;
    let mut ports = BTreeMap::new();
    for port in [80, 8080, 8443, 9000] {
        ports.insert(port, world.port()?);
    }
    let certificate = Certificate::of(&["shop.example.com"])?;
    if file.contains("gateway.yaml") || name == "gateway" {
        let mut gateway = text("gateway")?;
        for (written, port) in &ports {
            gateway = gateway.replace(&format!("port: {written}\n"), &format!("port: {port}\n"));
        }
        world.write("gateway.yaml", gateway)?;
        world.write("certificate.yaml", certificate.secret("infra", "shop-tls"))?;
    }
    if name != "gateway" {
        world.write("example.yaml", &file)?;
    }
    let _backends = backends(world, &file).await?;
    let folder = world.manifests().display().to_string();
    let code = file.lines().find_map(|line| line.strip_prefix("# Exit code of holdfast check: ")).unwrap_or("0");
    world.command(&["check", &folder]).await?.expect_code(code.parse()?)?;
    let proxies = ["--httpproxy-http".to_owned(), ports.get(&80).context("no port")?.to_string()];
    let options = HoldfastOptions::new(world)?.args(&proxies.each_ref().map(String::as_str));
    let _holdfast = world.run_with(options).await?;
    let requests = file.lines().filter_map(StatedRequest::read).collect::<Result<Vec<_>>>()?;
    ensure!(!requests.is_empty(), "the file states no requests");
    for request in &requests {
        request.is_answered(&ports, &certificate).await?;
    }
    Ok(())
}

/// Starts the backends in the comment of a file.
async fn backends(world: &World, file: &str) -> Result<Vec<Echo>> {
    let mut started = Vec::new();
    for line in file.lines().filter_map(|line| line.strip_prefix("# Backends: ")) {
        for backend in line.split(' ') {
            let (namespace, name) = backend.split_once('/').context("a backend without a namespace")?;
            started.push(world.backend_in(namespace, name, None).await?);
        }
    }
    Ok(started)
}
