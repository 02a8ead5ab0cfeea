//! Upgrades of CRDs, rollbacks and removal: the commands of the page, against a real API server.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{Story, World, stories};

use super::{chart, helm};

pub(crate) fn stories() -> Vec<Story> {
    stories!("upgrading", false, [crds_are_upgraded, a_removed_release_leaves_what_the_page_names])
}

const PAGE: &str = include_str!("../../../docs/operating/upgrades.md");
const CRD: &str = "trafficpolicies.gateway.kgateway.dev";

/// A cluster with the chart, and a shell in which kubectl and helm reach the cluster.
struct Release<'a> {
    world: &'a World,
    cluster: Cluster,
}

impl<'a> Release<'a> {
    async fn install(world: &'a World) -> Result<Self> {
        let release = Self { world, cluster: Cluster::bare(world).await? };
        let crds = "crds.gatewayApi=true,crds.contour=true,crds.kgateway=true";
        let chart = chart().display().to_string();
        release.helm(&["install", "holdfast", &chart, "--create-namespace", "--set", crds]).await?;
        Ok(release)
    }

    async fn helm(&self, args: &[&str]) -> Result<()> {
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let fixed = ["--kubeconfig", kubeconfig.as_str(), "--namespace", "holdfast"];
        helm(self.world, &[&fixed, args].concat()).await?.expect_code(0).map(drop)
    }

    /// Runs a command line of the page with this beginning; helm has its own way to the cluster.
    async fn runs(&self, beginning: &str) -> Result<()> {
        let lines: Vec<&str> = commands().into_iter().filter(|line| line.starts_with(beginning)).collect();
        ensure!(!lines.is_empty(), "the page has no {beginning}");
        for line in lines {
            match line.strip_prefix("helm ") {
                Some(args) => {
                    let chart = chart().display().to_string();
                    let args: Vec<&str> = args.split(' ').collect();
                    let args: Vec<&str> =
                        args.iter().map(|arg| if *arg == "charts/holdfast" { &chart } else { *arg }).collect();
                    self.helm(&args).await?;
                }
                None => self.shell(line).await?,
            }
        }
        Ok(())
    }

    async fn shell(&self, line: &str) -> Result<()> {
        let kubectl = self.cluster.kubectl_program();
        let folder = chart().join("../..").canonicalize()?;
        let line = line.replacen("kubectl", &kubectl.display().to_string(), 1);
        let script = format!("cd '{}' && {line}", folder.display());
        let env = [("KUBECONFIG".to_owned(), self.cluster.kubeconfig().display().to_string())];
        let run = Process::start("/bin/sh".as_ref(), ["-c", &script], &env, &self.world.log("shell"))?;
        run.finish().await?.expect_code(0).map(drop)
    }

    async fn has(&self, args: &[&str]) -> Result<bool> {
        Ok(self.cluster.kubectl(&[&["--namespace", "holdfast", "get"], args].concat()).await?.code == Some(0))
    }
}

/// Lines of the `sh` blocks, and commands in the last column of the table.
fn commands() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|block| block.split("```").next()).flat_map(str::lines);
    let cells = PAGE.lines().filter(|line| line.starts_with("| The ")).filter_map(|line| line.split('`').nth(1));
    blocks.chain(cells).collect()
}

/// Helm leaves an old CRD as it is; the commands of the page replace it, and the release can be upgraded and rolled back.
async fn crds_are_upgraded(world: World) -> Result<()> {
    let release = Release::install(&world).await?;
    // The CRD of an earlier release, without a field.
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/basicAuth";
    let patch = format!(r#"[{{"op": "remove", "path": "{path}"}}]"#);
    release.cluster.kubectl_output(&["patch", "crd", CRD, "--type=json", "-p", &patch]).await?;
    let field = async || {
        let path = format!("jsonpath={{{}.type}}", path.replace('/', ".").replace(".0.", "[0]."));
        release.cluster.kubectl_output(&["get", "crd", CRD, "-o", &path]).await
    };
    release.runs("helm upgrade").await?;
    ensure!(field().await?.is_empty(), "Helm has upgraded a CRD");
    release.runs("kubectl apply --server-side").await?;
    ensure!(field().await? == "object", "the CRD is not upgraded");
    release.runs("helm rollback").await?;
    ensure!(release.has(&["statefulset", "holdfast"]).await?, "the release is gone");
    Ok(())
}

async fn a_removed_release_leaves_what_the_page_names(world: World) -> Result<()> {
    let release = Release::install(&world).await?;
    release.runs("kubectl delete gateways").await?;
    release.runs("helm uninstall").await?;
    ensure!(!release.has(&["statefulset", "holdfast"]).await?, "the StatefulSet stays");
    ensure!(release.has(&["secret", "holdfast-store-key"]).await?, "the key is gone");
    let of_release =
        ["all,configmaps,roles,rolebindings,serviceaccounts,networkpolicies,poddisruptionbudgets", "-o", "name"];
    let labelled = [&of_release[..], &["--selector", "app.kubernetes.io/instance=holdfast"]].concat();
    let left = release.cluster.kubectl_output(&[&["--namespace", "holdfast", "get"], &labelled[..]].concat()).await?;
    ensure!(left.trim().is_empty(), "these stay as well:\n{left}");
    let cluster_wide = "clusterroles,clusterrolebindings,gatewayclasses,validatingwebhookconfigurations";
    let selector = "app.kubernetes.io/instance=holdfast";
    let left = release.cluster.kubectl_output(&["get", cluster_wide, "-o", "name", "--selector", selector]).await?;
    ensure!(left.trim().is_empty(), "these stay as well:\n{left}");
    release.runs("kubectl --namespace holdfast delete").await?;
    ensure!(!release.has(&["secret", "holdfast-store-key"]).await?, "the key stays");
    release.runs("kubectl delete -f charts/crds/kgateway").await?;
    ensure!(!release.has(&["crd", CRD]).await?, "the CRD stays");
    Ok(())
}
