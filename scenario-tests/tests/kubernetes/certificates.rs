//! `holdfast certgen` with Secrets: the Secrets that it creates, renews and does not change, and the effect on a
//! running Holdfast and its Envoys.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::fleet::{FleetEnvoy, connected};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, binary, manifests, request::get, stories, until};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::Value;

use super::serving::{answers, backend, gateway, rule};

pub(crate) fn stories() -> Vec<Story> {
    let mut stories = stories!("certificates", false, [certgen_needs_no_more_than_its_secrets]);
    stories.extend(stories!("certificates", true, [an_authority_is_followed_by_another]));
    stories
}

const YEAR: u64 = 365 * 86_400;
const DAY: u64 = 86_400;

/// Runs certgen with this kubeconfig.
async fn certgen(world: &World, kubeconfig: &Path, further: &[&str]) -> Result<Finished> {
    let kubeconfig = kubeconfig.display().to_string();
    let args = ["certgen", "--secret", "infra/xds", "--kubeconfig", &kubeconfig, "--server-name", "127.0.0.1"];
    let args = [&args[..], &["--gateway", "default/public"], further].concat();
    Process::start(&binary::holdfast()?, args, &[], &world.log("certgen"))?.finish().await
}

async fn secret(cluster: &Cluster, namespace: &str, name: &str) -> Result<Value> {
    let output = cluster.kubectl_output(&["-n", namespace, "get", "secret", name, "-o", "json"]).await?;
    Ok(serde_json::from_str(&output)?)
}

/// Writes a Secret as files, each replaced atomically, as a kubelet does.
async fn mount(cluster: &Cluster, namespace: &str, name: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let secret = secret(cluster, namespace, name).await?;
    for (key, value) in secret["data"].as_object().context("no data")? {
        let aside = folder.join(format!("..{key}"));
        fs::write(&aside, STANDARD.decode(value.as_str().context("no text")?)?)?;
        fs::rename(&aside, folder.join(key))?;
    }
    Ok(())
}

/// Number of CA certificates in a Secret.
async fn trusted(cluster: &Cluster, namespace: &str, name: &str) -> Result<usize> {
    let secret = secret(cluster, namespace, name).await?;
    let bundle = STANDARD.decode(secret["data"]["ca.crt"].as_str().context("no authorities")?)?;
    Ok(String::from_utf8(bundle)?.matches("BEGIN CERTIFICATE").count())
}

async fn certgen_needs_no_more_than_its_secrets(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    cluster.kubectl_output(&["create", "namespace", "infra"]).await?;
    cluster.kubectl_output(&["-n", "infra", "create", "serviceaccount", "certgen"]).await?;
    for (namespace, names) in [("infra", "xds,xds-authority"), ("default", "public-holdfast-xds")] {
        let subject = "{kind: ServiceAccount, name: certgen, namespace: infra}";
        cluster
            .apply(format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: certgen, namespace: {namespace}}}\n\
                 rules: [{{apiGroups: [''], resources: [secrets], resourceNames: [{names}], verbs: [create, get, patch]}}]\n---\n\
                 apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: certgen, namespace: {namespace}}}\n\
                 roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: certgen}}\nsubjects: [{subject}]\n"
            ))
            .await?;
    }
    let token = cluster.kubectl_output(&["-n", "infra", "create", "token", "certgen"]).await?;
    let own = cluster.kubeconfig_of(token.trim())?;
    certgen(&world, &own, &[]).await?.expect_code(0)?.expect_output(&[
        "created a certificate authority",
        "127.0.0.1",
        "default/public",
    ])?;
    for (namespace, name, kind) in [
        ("infra", "xds", "kubernetes.io/tls"),
        ("infra", "xds-authority", "Opaque"),
        ("default", "public-holdfast-xds", "kubernetes.io/tls"),
    ] {
        ensure!(secret(&cluster, namespace, name).await?["type"] == kind, "{namespace}/{name}");
    }
    let before = secret(&cluster, "infra", "xds").await?;
    // Repeated runs write nothing.
    certgen(&world, &own, &[]).await?.expect_code(0)?.expect_output(&["nothing to renew"])?;
    ensure!(secret(&cluster, "infra", "xds").await? == before, "it is written without need");
    // Another name requires another certificate, of the same authority.
    let more = ["--server-name", "localhost"];
    certgen(&world, &own, &more)
        .await?
        .expect_code(0)?
        .expect_output(&["created the certificate of the xDS server"])?;
    let after = secret(&cluster, "infra", "xds").await?;
    ensure!(after["data"]["tls.crt"] != before["data"]["tls.crt"], "it is the old one");
    ensure!(after["data"]["ca.crt"] == before["data"]["ca.crt"], "another authority");
    // Certgen writes no other Secret, and no Secret that belongs to another owner.
    let refused = certgen(&world, &own, &["--gateway", "default/other"]).await?;
    refused.expect_code(1)?.expect_output(&["Secret default/other-holdfast-xds", "forbidden"])?;
    cluster.kubectl_output(&["-n", "infra", "delete", "secret", "xds"]).await?;
    cluster
        .kubectl_output(&["-n", "infra", "create", "secret", "generic", "xds", "--from-literal=tls.key=theirs"])
        .await?;
    let refused = certgen(&world, &own, &[]).await?;
    refused.expect_code(1)?.expect_output(&["Secret infra/xds is of type Opaque"])?;
    ensure!(secret(&cluster, "infra", "xds").await?["data"]["tls.key"] == STANDARD.encode("theirs"));
    // The output does not contain a key.
    let key = STANDARD.decode(before["data"]["tls.key"].as_str().context("no key")?)?;
    let line = String::from_utf8(key)?.lines().nth(1).context("a key of one line")?.to_owned();
    ensure!(!refused.output().contains(&line));
    Ok(())
}

/// Creates an authority as certgen does, with the given time of creation.
fn authority(made: u64) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("holdfast xds authority {made}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let at = |seconds: u64| rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds);
    (params.not_before, params.not_after) = (at(made), at(made + 10 * YEAR));
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Rotation of the authority: one is old, the other is already trusted by all and begins to sign in 30 seconds. The
/// rotation, which usually takes a day, completes in half a minute.
async fn an_authority_is_followed_by_another(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    cluster.kubectl_output(&["create", "namespace", "infra"]).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (old, new) = (now - 6 * YEAR, now - DAY + 30);
    let mut data = serde_json::Map::new();
    for made in [old, new] {
        let (certificate, key) = authority(made)?;
        data.insert(format!("{made}.crt"), STANDARD.encode(certificate).into());
        data.insert(format!("{made}.key"), STANDARD.encode(key).into());
    }
    let seed = serde_json::json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
                                   "metadata": { "name": "xds-authority", "namespace": "infra" } });
    cluster.apply(seed.to_string()).await?;
    let admin = cluster.kubeconfig();
    certgen(&world, &admin, &[]).await?.expect_code(0)?;
    ensure!(
        trusted(&cluster, "infra", "xds").await? == 2
            && trusted(&cluster, "default", "public-holdfast-xds").await? == 2
    );

    let (server, clients) = (world.folder().join("server"), world.folder().join("clients"));
    let mount_all = async || {
        mount(&cluster, "infra", "xds", &server).await?;
        mount(&cluster, "default", "public-holdfast-xds", &clients).await
    };
    mount_all().await?;
    let options = options(&world, &cluster, &server)?;
    let holdfast = world.run_with(options.clone()).await?;
    // Envoy's SDS files contain the paths of the mounted files; in this story the folder is a different one.
    let credentials = |name: &str| -> Result<PathBuf> {
        let folder = world.folder().join(name);
        fs::create_dir_all(&folder)?;
        for file in fs::read_dir(&clients)?.flatten() {
            let text = fs::read_to_string(file.path())?.replace("/etc/holdfast/xds", &folder.display().to_string());
            let aside = folder.join("..aside");
            fs::write(&aside, text)?;
            fs::rename(aside, folder.join(file.file_name()))?;
        }
        Ok(folder)
    };
    let envoy =
        |node: &str, credentials: PathBuf| FleetEnvoy { credentials: Some(credentials), ..FleetEnvoy::large(node) };
    let first = envoy("first", credentials("first")?).start(&world, &options).await?;
    answers(port, "/one", 200).await?;
    let load = Hammer::start([get(port, "/one").host("a.example.com")]);
    let before = secret(&cluster, "infra", "xds").await?["data"]["tls.crt"].clone();
    until("the new authority signs", || async {
        certgen(&world, &admin, &[]).await?.expect_code(0)?;
        ensure!(secret(&cluster, "infra", "xds").await?["data"]["tls.crt"] != before, "it does not yet");
        Ok(())
    })
    .await?;
    ensure!(trusted(&cluster, "infra", "xds").await? == 2, "who has an old certificate is not trusted any more");
    // The server receives the new files before its Envoys do.
    mount(&cluster, "infra", "xds", &server).await?;
    holdfast.comes_to_print(&["the certificates of the xDS server have changed"]).await?;
    connected(&holdfast, 1).await?;
    let second = envoy("second", credentials("second")?).start(&world, &options).await?;
    connected(&holdfast, 2).await?;
    mount_all().await?;
    let third = envoy("third", credentials("third")?).start(&world, &options).await?;
    connected(&holdfast, 3).await?;
    // All Envoys reconnect to a restarted server.
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    connected(&holdfast, 3).await?;
    cluster.apply(manifests::http_route("more", &rule("/more"))).await?;
    answers(port, "/more", 200).await?;
    load.stop_expecting(holdfast_scenario_tests::hammer::Shot::is_ok).await?;
    for envoy in [&first, &second, &third] {
        envoy.never_refused().await?;
    }
    Ok(())
}

/// Returns options of a Holdfast that serves xDS over TLS with the files of a folder.
fn options(world: &World, cluster: &Cluster, folder: &Path) -> Result<HoldfastOptions> {
    let file = |name: &str| folder.join(name).display().to_string();
    let options =
        super::serving::options(world, cluster)?.without_envoy().args(&["--provision=false", "--probe", "off"]);
    let (certificate, key, authorities) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
    Ok(options.args(&["--xds-tls-cert", &certificate, "--xds-tls-key", &key, "--xds-client-ca", &authorities]))
}
