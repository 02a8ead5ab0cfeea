//! ServiceAccount tokens of a real API server, used by real Envoys: only the token decides which Gateway's
//! configuration an Envoy receives.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_scenario_tests::connect::ClientTls;
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::manifests::{class, documents, gateway, http_listener, https_listener, route};
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::services::tokens::signed;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::xds_client::{LISTENER, XdsClient};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, envoy, request::get, stories, until};
use holdfast_xds::ResourceType;
use rcgen::KeyPair;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use super::serving::{answers, backend};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "tokens",
        true,
        [a_token_is_of_one_gateway, resources_of_another_gateway_are_never_sent, an_envoy_serves_as_it_was_made]
    )
}

const AUDIENCE: &str = "holdfast.dev/xds";
/// Paths in a bootstrap for a Pod.
const FOLDERS: [&str; 3] = ["/etc/envoy", "/run/holdfast", "/var/run/secrets/holdfast.dev"];

/// Returns options of a Holdfast that serves xDS over TLS and accepts tokens, and the file of its CA certificates.
async fn options(world: &World, cluster: &Cluster) -> Result<(HoldfastOptions, PathBuf)> {
    let out = world.folder().join("certs");
    let args = ["certgen", "--out", &out.display().to_string(), "--server-name", "localhost,127.0.0.1"];
    world.command(&args).await?.expect_code(0)?;
    let file = |name: &str| out.join("server").join(name).display().to_string();
    let (certificate, key, authorities) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
    let options = HoldfastOptions { manifests: Vec::new(), ..HoldfastOptions::new(world)? }.without_envoy();
    let address = options.xds.replace("127.0.0.1", "localhost");
    let options =
        options.args(&["--kubeconfig", &cluster.kubeconfig().display().to_string(), "--probe", "off"]).args(&[
            "--xds-tls-cert",
            &certificate,
            "--xds-tls-key",
            &key,
            "--xds-token-audience",
            AUDIENCE,
            "--xds-token-issuer",
            "https://kubernetes.default.svc",
            "--provision-token-audience",
            AUDIENCE,
            "--provision-xds-address",
            &address,
            "--provision-xds-authorities",
            &authorities,
        ]);
    Ok((options, authorities.into()))
}

/// Applies the Gateway `public`, with a certificate, and `public.web`, with a dot in its name; returns their ports.
async fn two_gateways(world: &World, cluster: &Cluster, certificate: &Certificate) -> Result<(u16, u16)> {
    let (public, web) = (world.port()?, world.port()?);
    let listeners = https_listener("one", public, "one.example", &["one"]);
    let rules = "rules: [{backendRefs: [{name: echo, port: 8080}]}]";
    let routes =
        ["public", "public.web"].map(|name| route("HTTPRoute", "default", name, &format!("- name: {name}\n"), rules));
    let gateways = [class(), gateway("public", &listeners), gateway("public.web", &http_listener(web))];
    cluster.apply(documents(&[&gateways[..], &[certificate.secret("default", "one")], &routes].concat())).await?;
    Ok((public, web))
}

/// Creates a token of an Envoy's ServiceAccount.
async fn token(cluster: &Cluster, account: &str, audience: &str) -> Result<String> {
    let audience = format!("--audience={audience}");
    let args = ["create", "token", account, &audience];
    let token = until(&format!("there is an account {account}"), || cluster.kubectl_output(&args)).await?;
    Ok(token.trim().to_owned())
}

/// Returns the token with earlier times, so that it has expired.
fn expired(world: &World, token: &str) -> Result<String> {
    let key = KeyPair::from_pem(&fs::read_to_string(world.folder().join("cluster/accounts.key"))?)?;
    let part = |text: &str| -> Result<Value> { Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text)?)?) };
    let mut parts = token.split('.');
    let (head, mut claims) = (part(parts.next().context("no head")?)?, part(parts.next().context("no claims")?)?);
    for (claim, before) in [("iat", 7200), ("nbf", 7200), ("exp", 3600)] {
        let at = claims["iat"].as_u64().context("no time")? - before;
        claims[claim] = at.into();
    }
    signed(&key, &head, &claims)
}

/// Credentials of an Envoy, as a kubelet mounts them: the token is behind a symbolic link that is replaced.
struct MountedCredentials {
    credentials: PathBuf,
    token: PathBuf,
}

impl MountedCredentials {
    async fn new(world: &World, name: &str, authorities: &Path, token: &str) -> Result<Self> {
        let credentials = world.folder().join(format!("{name}-credentials"));
        let folder = world.folder().join(format!("{name}-token"));
        fs::create_dir_all(&credentials)?;
        fs::create_dir_all(&folder)?;
        fs::copy(authorities, credentials.join("ca.crt"))?;
        symlink("..data/token", folder.join("token"))?;
        let given = Self { token: folder.join("token"), credentials };
        given.give(token)?;
        for (print, file) in [("sds-authorities", "sds-authorities.yaml"), ("sds-token", "sds-token.yaml")] {
            let (folder, token) = (given.credentials.display().to_string(), given.token.display().to_string());
            let args = ["bootstrap", "--gateway", "default/public", "--xds", "127.0.0.1:1", "--print", print];
            let args = [&args[..], &["--xds-credentials", &folder, "--xds-token", &token]].concat();
            let printed = world.command(&args).await?;
            fs::write(given.credentials.join(file), &printed.expect_code(0)?.stdout)?;
        }
        Ok(given)
    }

    fn give(&self, token: &str) -> Result<()> {
        let folder = self.token.parent().context("no folder")?;
        let fresh = format!("..{}", fs::read_dir(folder)?.count());
        fs::create_dir(folder.join(&fresh))?;
        fs::write(folder.join(&fresh).join("token"), token)?;
        symlink(&fresh, folder.join("..next"))?;
        Ok(fs::rename(folder.join("..next"), folder.join("..data"))?)
    }

    fn envoy(&self, node: &str, gateway: &'static str) -> FleetEnvoy {
        let (credentials, token) = (Some(self.credentials.clone()), Some(self.token.clone()));
        FleetEnvoy { credentials, token, gateway, ..FleetEnvoy::large(node) }
    }
}

async fn is_turned_away(envoy: &RunningEnvoy) -> Result<()> {
    until("it is turned away", || async {
        let streams = envoy.stat("cluster.holdfast-xds.upstream_rq_total").await?;
        ensure!(streams >= 2, "{} tried {streams} streams", envoy.node);
        Ok(())
    })
    .await?;
    for resource in ["dynamic_listeners", "dynamic_active_clusters", "dynamic_warming_clusters"] {
        let dump = envoy.dump(resource).await?;
        ensure!(dump.get("configs").is_none(), "{} has {dump}", envoy.node);
    }
    let dump = envoy.dump("dynamic_active_secrets").await?.to_string();
    ensure!(!dump.contains("default/one"), "{} has {dump}", envoy.node);
    Ok(())
}

async fn a_token_is_of_one_gateway(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let certificate = Certificate::of(&["one.example"])?;
    let (public, web) = two_gateways(&world, &cluster, &certificate).await?;
    let (options, authorities) = options(&world, &cluster).await?;
    let holdfast = world.run_with(options.clone()).await?;
    let good = token(&cluster, "public-holdfast", AUDIENCE).await?;
    let of_web = token(&cluster, "public.web-holdfast", AUDIENCE).await?;
    cluster.kubectl_output(&["create", "serviceaccount", "somebody"]).await?;
    let mut rejected = Vec::new();
    for (node, bad) in [
        ("of-another-audience", token(&cluster, "public-holdfast", "https://kubernetes.default.svc").await?),
        ("of-nobody", token(&cluster, "somebody", AUDIENCE).await?),
        ("of-web", of_web.clone()),
        ("expired", expired(&world, &good)?),
    ] {
        let given = MountedCredentials::new(&world, node, &authorities, &bad).await?;
        let envoy = given.envoy(node, "default/public").start(&world, &options).await?;
        rejected.push((given, envoy));
    }
    let first = MountedCredentials::new(&world, "first", &authorities, &good).await?;
    let first = first.envoy("first", "default/public").start(&world, &options).await?;
    let request = || get(public, "/").host("one.example").tls(certificate.trust("one.example"));
    request().comes_to_reach("echo").await?;
    for (_, envoy) in &rejected {
        is_turned_away(envoy).await?;
    }
    connected(&holdfast, 1).await?;
    for why in ["client refused", "stream refused"] {
        holdfast.comes_to_print(&[why]).await?;
    }
    // A Gateway with a dot in its name has tokens as well.
    let of_web = MountedCredentials::new(&world, "web", &authorities, &of_web).await?;
    let _web = of_web.envoy("web", "default/public.web").start(&world, &options).await?;
    get(web, "/").comes_to_reach("echo").await?;
    // The kubelet replaces an expired token, and the Envoy reads the new one.
    let (given, late) = rejected.pop().context("nobody")?;
    given.give(&good)?;
    connected(&holdfast, 3).await?;
    until("it has what it was not given before", || async {
        let dump = late.dump("dynamic_active_secrets").await?.to_string();
        ensure!(dump.contains("default/one"), "{dump}");
        Ok(())
    })
    .await?;
    first.never_refused().await
}

/// Names of all resources of an Envoy.
async fn names(envoy: &RunningEnvoy) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (resource, at) in [
        ("dynamic_listeners", "/name"),
        ("dynamic_active_clusters", "/cluster/name"),
        ("dynamic_route_configs", "/route_config/name"),
        ("dynamic_active_secrets", "/name"),
    ] {
        let dump = envoy.dump(resource).await?;
        let found = dump["configs"].as_array().into_iter().flatten().filter_map(|config| config.pointer(at)?.as_str());
        let count = names.len();
        names.extend(found.filter(|name| !name.starts_with("holdfast-xds")).map(str::to_owned));
        ensure!(names.len() > count, "{} has no {resource}: {dump}", envoy.node);
    }
    Ok(names)
}

async fn resources_of_another_gateway_are_never_sent(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let certificate = Certificate::of(&["one.example"])?;
    let (public, _) = two_gateways(&world, &cluster, &certificate).await?;
    let (options, authorities) = options(&world, &cluster).await?;
    let _holdfast = world.run_with(options.clone()).await?;
    let good = token(&cluster, "public-holdfast", AUDIENCE).await?;
    let owner = MountedCredentials::new(&world, "owner", &authorities, &good).await?;
    let owner = owner.envoy("owner", "default/public").start(&world, &options).await?;
    get(public, "/").host("one.example").tls(certificate.trust("one.example")).comes_to_reach("echo").await?;
    let names = names(&owner).await?;

    let root =
        CertificateDer::from_pem_slice(&fs::read(&authorities)?).map_err(|error| Error::msg(error.to_string()))?;
    let trust = ClientTls {
        server_name: "localhost".into(),
        root,
        nameless: false,
        shown: None,
        only_rsa: false,
        only_12: false,
    };
    let port = options.xds.rsplit(':').next().context("no port")?.parse()?;
    let connect_as = |token: &str, node_cluster: &str| XdsClient {
        port,
        trust: trust.clone(),
        token: token.to_owned(),
        node_cluster: node_cluster.to_owned(),
    };
    let of_web = token(&cluster, "public.web-holdfast", AUDIENCE).await?;
    // Texts that only `public` may receive: its host, certificate and key.
    let key = certificate.key_pem.lines().nth(1).context("a key of one line")?.to_owned();
    let marks = ["one.example".to_owned(), certificate.pem.lines().nth(1).context("a certificate")?.to_owned(), key];
    let leaks = |got: &[Vec<u8>]| {
        let text = got.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect::<String>();
        marks.iter().any(|mark| text.contains(mark))
    };
    for kind in ResourceType::ALL {
        for node_cluster in ["default/public.web", ""] {
            let client = connect_as(&of_web, node_cluster);
            for got in
                [client.subscribe_delta(kind.url(), &names).await?, client.subscribe_sotw(kind.url(), &names).await?]
            {
                ensure!(!got.is_empty(), "{kind:?}: it is given nothing of its own either");
                ensure!(!leaks(&got), "{kind:?}: it is given what is of another");
            }
        }
        for (token, node_cluster) in
            [(&*of_web, "default/public"), ("", "default/public"), ("nonsense", "default/public")]
        {
            let client = connect_as(token, node_cluster);
            ensure!(client.subscribe_delta(kind.url(), &names).await.is_err(), "{kind:?} of another Gateway");
            ensure!(client.subscribe_sotw(kind.url(), &names).await.is_err(), "{kind:?} of another Gateway");
        }
    }
    // The Envoy of the Gateway receives them with the same requests.
    let client = connect_as(&good, "default/public");
    let mut got = client.subscribe_delta(ResourceType::Secret.url(), &names).await?;
    got.extend(client.subscribe_delta(LISTENER, &[]).await?);
    ensure!(leaks(&got), "nobody is given it");
    Ok(())
}

/// Writes the generated files of the Gateway's Pods, with the folders of a Pod inside the folder of the story.
async fn made(world: &World, cluster: &Cluster, token: &str) -> Result<PathBuf> {
    until("the bootstrap is made", || cluster.kubectl_output(&["get", "configmap", "public-holdfast"])).await?;
    let output = cluster.kubectl_output(&["get", "configmap", "public-holdfast", "-o", "json"]).await?;
    let made: Value = serde_json::from_str(&output)?;
    let at = |folder: &str| world.folder().join("pod").join(folder.trim_start_matches('/'));
    for folder in FOLDERS {
        fs::create_dir_all(at(folder))?;
    }
    let files = made["data"].as_object().context("no files")?;
    for (name, text) in files {
        let text = text.as_str().context("no text")?;
        let text = FOLDERS
            .iter()
            .fold(text.to_owned(), |text, folder| text.replace(folder, &at(folder).display().to_string()));
        fs::write(at(FOLDERS[0]).join(name), text)?;
    }
    fs::write(at(FOLDERS[2]).join("token"), token)?;
    let file = at(FOLDERS[0]).join("bootstrap.json");
    // There is no DNS server here; the name that the certificate must have does not change.
    let mut bootstrap: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let endpoint = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint";
    let host = bootstrap.pointer_mut(&format!("{endpoint}/address/socket_address/address")).context("no address")?;
    ensure!(*host == "localhost", "it is {host}");
    *host = "127.0.0.1".into();
    fs::write(&file, bootstrap.to_string())?;
    Ok(file)
}

async fn an_envoy_serves_as_it_was_made(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = super::serving::gateway(&world, &cluster).await?;
    cluster.apply(holdfast_scenario_tests::manifests::http_route("r", &super::serving::rule("/one"))).await?;
    let (options, _) = options(&world, &cluster).await?;
    let holdfast = world.run_with(options).await?;
    let token = token(&cluster, "public-holdfast", AUDIENCE).await?;
    let config = made(&world, &cluster, &token).await?.display().to_string();
    let program = envoy::find().map_err(Error::msg)?;
    let args = ["--config-path", &config, "--service-node", "pod-1", "--disable-hot-restart", "--concurrency", "1"];
    let _envoy = Process::start(&program, args, &[], &world.log("envoy"))?;
    answers(port, "/one", 200).await?;
    connected(&holdfast, 1).await
}
