//! A cluster for one story: etcd and kube-apiserver, with the CRDs of Gateway API, Contour and kgateway.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio::net::TcpStream;

use super::assets::{self, Assets};
use super::{etcd, prepared};
use crate::process::{Finished, Process, signal};
use crate::wait::until;
use crate::world::World;

/// The CRDs, unchanged from upstream.
pub(super) const CRDS: [&str; 3] = ["gateway-api", "contour", "kgateway"];

/// The audit policy of the API server: requests of service accounts.
const AUDITED: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                       - {level: Metadata, userGroups: ['system:serviceaccounts']}\n- {level: None}\n";

/// A cluster without nodes.
#[derive(Debug)]
pub struct Cluster {
    world: World,
    assets: Assets,
    port: u16,
    etcd_port: u16,
    etcd: Process,
    api_server: Option<Process>,
}

/// A stopped API server process; continues when the value is dropped.
#[derive(Debug)]
pub struct Frozen(u32);

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

impl Cluster {
    /// Starts a cluster with the CRDs and the namespace `default`.
    pub async fn start(world: &World) -> Result<Self> {
        let assets = assets()?;
        prepared::copy_to(&data(world), &assets).await?;
        Self::with_data(world, assets).await
    }

    /// Starts a cluster without CRDs.
    pub async fn bare(world: &World) -> Result<Self> {
        Self::with_data(world, assets()?).await
    }

    async fn with_data(world: &World, assets: Assets) -> Result<Self> {
        let (port, etcd_port, peers) = (world.port()?, world.port()?, world.port()?);
        let folder = world.folder().join("cluster");
        fs::create_dir_all(&folder)?;
        write_identities(&folder, port)?;
        fs::write(folder.join("audit.yaml"), AUDITED)?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let etcd = Process::start(
            &assets.program("etcd"),
            [
                "--name=one",
                "--unsafe-no-fsync",
                "--log-level=error",
                &format!("--data-dir={}", data(world).display()),
                &format!("--listen-client-urls={}", url(etcd_port)),
                &format!("--advertise-client-urls={}", url(etcd_port)),
                &format!("--listen-peer-urls={}", url(peers)),
                &format!("--initial-advertise-peer-urls={}", url(peers)),
                &format!("--initial-cluster=one={}", url(peers)),
            ],
            &[],
            &world.log("etcd"),
        )?;
        let mut cluster = Self { world: world.clone(), assets, port, etcd_port, etcd, api_server: None };
        cluster.start_api_server().await?;
        Ok(cluster)
    }

    /// Starts the API server, also after a stop, and waits until it is ready.
    pub async fn start_api_server(&mut self) -> Result<()> {
        ensure!(self.api_server.is_none(), "the API server runs");
        let file = |name: &str| self.folder().join(name).display().to_string();
        let arguments = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            "--bind-address=127.0.0.1".into(),
            // The default is the address of the default route, and the machine may have none.
            "--advertise-address=10.244.255.254".into(),
            format!("--secure-port={}", self.port),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file("accounts.pub")),
            format!("--service-account-signing-key-file={}", file("accounts.key")),
            "--authorization-mode=RBAC".into(),
            "--disable-admission-plugins=ServiceAccount".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--audit-policy-file={}", file("audit.yaml")),
            format!("--audit-log-path={}", file("audit.log")),
        ];
        let program = self.assets.program("kube-apiserver");
        let mut server = Process::start(&program, arguments, &[], &self.world.log("kube-apiserver"))?;
        let ready = until("the API server is ready", || async {
            // Each request with kubectl starts a process, so the connection is tried first.
            TcpStream::connect(("127.0.0.1", self.port)).await?;
            let finished = self.kubectl(&["get", "--raw", "/readyz"]).await?;
            ensure!(finished.stdout == "ok", "{}", finished.output());
            Ok(())
        });
        let ready = tokio::select! {
            ready = ready => ready,
            end = server.comes_to_end() => Err(anyhow::anyhow!("the API server ended before it was ready ({end})")),
        };
        self.api_server = Some(server);
        ready
    }

    /// Ends the API server; etcd keeps the objects.
    pub fn stop_api_server(&mut self) -> Result<()> {
        let server = self.api_server.take().context("the API server does not run")?;
        drop(server);
        Ok(())
    }

    /// Ends both processes, and returns the folder of the data of etcd.
    pub(super) fn end(self) -> PathBuf {
        let Self { world, etcd, api_server, .. } = self;
        drop(api_server);
        drop(etcd);
        data(&world)
    }

    /// Stops the API server's process (SIGSTOP) until the returned value is dropped: its sockets stay open, and nothing
    /// answers.
    pub fn freeze_api_server(&self) -> Result<Frozen> {
        let id = self.api_server.as_ref().context("the API server does not run")?.id();
        signal(id, "STOP");
        Ok(Frozen(id))
    }

    /// Compacts the history of etcd.
    pub async fn forget_history(&self) -> Result<()> {
        etcd::compact(self.etcd_port).await
    }

    /// The process id of etcd.
    pub fn etcd_id(&self) -> u32 {
        self.etcd.id()
    }

    fn folder(&self) -> PathBuf {
        self.world.folder().join("cluster")
    }

    /// The port of the API server, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate file of the authority that signed the API server's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder().join("ca.crt")
    }

    /// The path of kubectl.
    pub fn kubectl_program(&self) -> PathBuf {
        self.assets.program("kubectl")
    }

    /// The kubeconfig of a cluster administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// Writes a kubeconfig with a token and returns its path.
    pub fn kubeconfig_of(&self, token: &str) -> Result<PathBuf> {
        let text = fs::read_to_string(self.kubeconfig())?;
        let other = |line: &str| match line.starts_with("users:") {
            true => format!("users: [{{name: admin, user: {{token: {token}}}}}]\n"),
            false => format!("{line}\n"),
        };
        let file = self.world.log("kubeconfig").with_extension("yaml");
        fs::write(&file, text.lines().map(other).collect::<String>())?;
        Ok(file)
    }

    /// The audit log of requests of service accounts, one JSON document per line.
    pub fn audited(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder().join("audit.log"))?)
    }

    /// Runs kubectl to its end.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Finished> {
        self.kubectl_as(&self.kubeconfig(), args).await
    }

    /// Runs kubectl to its end, with another kubeconfig.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str]) -> Result<Finished> {
        let config = format!("--kubeconfig={}", kubeconfig.display());
        let home = [("HOME".to_owned(), self.folder().display().to_string())];
        let all = std::iter::once(config.as_str()).chain(args.iter().copied());
        Process::start(&self.assets.program("kubectl"), all, &home, &self.world.log("kubectl"))?.finish().await
    }

    /// Runs kubectl and returns its standard output; fails unless the exit code is 0.
    pub async fn kubectl_output(&self, args: &[&str]) -> Result<String> {
        let finished = self.kubectl(args).await?;
        if finished.code != Some(0) {
            bail!("kubectl {}: {}", args.join(" "), finished.output());
        }
        Ok(finished.stdout)
    }

    /// Applies manifests.
    pub async fn apply(&self, text: impl AsRef<str>) -> Result<()> {
        let file = self.world.log("applied").with_extension("yaml");
        fs::write(&file, text.as_ref())?;
        self.kubectl_output(&["apply", "--server-side", "--force-conflicts", "-f", &file.display().to_string()])
            .await
            .map(drop)
    }

    /// Installs the CRDs of a project, and waits until they are served.
    pub async fn install(&self, project: &str) -> Result<()> {
        let folder = crds(project).display().to_string();
        self.kubectl_output(&["apply", "--server-side", "-f", &folder]).await?;
        self.kubectl_output(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]).await.map(drop)
    }
}

/// The folder of the data of the etcd of a world.
fn data(world: &World) -> PathBuf {
    world.folder().join("cluster/etcd")
}

/// The folder of the CRDs of a project.
pub(super) fn crds(project: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/crds").join(project)
}

fn assets() -> Result<Assets> {
    static FOUND: OnceLock<Result<Assets, String>> = OnceLock::new();
    FOUND.get_or_init(|| assets::find().map_err(|error| format!("{error:#}"))).clone().map_err(anyhow::Error::msg)
}

/// Writes a certificate authority, the certificates of the server and of an administrator, and the key that signs
/// tokens.
fn write_identities(folder: &Path, port: u16) -> Result<()> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name.push(DnType::CommonName, "cluster");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
    let mut server = CertificateParams::new(names.to_vec())?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = KeyPair::generate()?;
    let server_pem = server.signed_by(&server_key, &issuer)?.pem();

    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let admin_key = KeyPair::generate()?;
    let admin_pem = admin.signed_by(&admin_key, &issuer)?.pem();

    let accounts = KeyPair::generate()?;
    let files = [
        ("ca.crt", authority_pem),
        ("server.crt", server_pem),
        ("server.key", server_key.serialize_pem()),
        ("admin.crt", admin_pem),
        ("admin.key", admin_key.serialize_pem()),
        ("accounts.pub", accounts.public_key_pem()),
        ("accounts.key", accounts.serialize_pem()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: admin\n\
         clusters: [{{name: cluster, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: {}}}}}]\n\
         users: [{{name: admin, user: {{client-certificate: {}, client-key: {}}}}}]\n\
         contexts: [{{name: admin, context: {{cluster: cluster, user: admin}}}}]\n",
        path("ca.crt"),
        path("admin.crt"),
        path("admin.key"),
    );
    Ok(fs::write(folder.join("kubeconfig"), kubeconfig)?)
}
