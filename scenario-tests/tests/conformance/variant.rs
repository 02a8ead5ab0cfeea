//! Variants of the run: other settings of Holdfast, other CRDs, and objects beside those of the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::until;

/// Environment variable with the name of the variant.
const RUN: &str = "HOLDFAST_CONFORMANCE_RUN";
/// The namespace of the objects beside those of the suite.
pub(super) const OTHERS: &str = "others";
/// Number of routes in the variant with many routes.
const ROUTES: usize = 1000;
/// A Gateway of the suite to which routes of all namespaces may attach.
const SHARED: &str = "{name: all-namespaces, namespace: gateway-conformance-infra}";
/// A key that translation accepts and Envoy refuses: it is too short.
const SHORT_KEY: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"k","x":"MDEyMzQ1Njc4OQ"}]}"#;

/// A variant of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// With `FallbackConfiguration` and last valid versions.
    Plain,
    /// Without both.
    GatesOff,
    /// Without a probe.
    ProbeOff,
    /// With the CRDs of the experimental channel, and the features with experimental fields that Holdfast serves.
    Experimental,
    /// Beside 1,000 routes of another Gateway and namespace.
    Routes,
    /// Beside a route of another namespace that Envoy refuses, attached to a Gateway of the suite.
    Refused,
    /// With two replicas, of which the leader ends twice, and a route of another Gateway that is served all the time.
    Replicas,
}

impl Variant {
    /// All variants.
    pub(super) const ALL: [Self; 7] =
        [Self::Plain, Self::GatesOff, Self::ProbeOff, Self::Refused, Self::Routes, Self::Replicas, Self::Experimental];

    /// Returns the variant that the environment names.
    pub(super) fn find() -> Result<Self> {
        let Ok(named) = std::env::var(RUN) else { return Ok(Self::Plain) };
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|variant| variant.name() == named);
        found.with_context(|| format!("{RUN}={named} is none of {names}"))
    }

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::GatesOff => "gates-off",
            Self::ProbeOff => "probe-off",
            Self::Experimental => "experimental",
            Self::Routes => "routes",
            Self::Refused => "refused",
            Self::Replicas => "replicas",
        }
    }

    /// Returns what is special about the run.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Plain => "`FallbackConfiguration` and last valid versions are on, with a probe",
            Self::GatesOff => "`FallbackConfiguration` and last valid versions are off",
            Self::ProbeOff => "as plain, without a probe",
            Self::Experimental => "as plain, with the CRDs of the experimental channel",
            Self::Routes => "as plain, beside 1,000 HTTPRoutes of another Gateway and namespace",
            Self::Refused => {
                "as plain, beside an HTTPRoute of another namespace with token keys that Envoy refuses all the time, attached to a \
                 Gateway of the suite"
            }
            Self::Replicas => {
                "as plain, with two replicas; the leader is killed when 65 tests have begun, and the next one gets SIGTERM when \
                 100 have begun; a client of another Gateway gets the right answer every 50 ms"
            }
        }
    }

    /// Returns further values of the chart.
    pub(super) fn values(self) -> String {
        let isolates = self != Self::GatesOff;
        let own = match self {
            Self::ProbeOff => ",probe.mode=off",
            Self::Replicas => ",replicas=2",
            _ => "",
        };
        format!(",featureGates.FallbackConfiguration={isolates},fallback.useLastValidConfig={isolates}{own}")
    }

    /// Returns features beside those that the GatewayClass has.
    pub(super) fn features(self) -> &'static [&'static str] {
        if self == Self::Experimental { &["HTTPRouteRetry"] } else { &[] }
    }

    /// Adds the objects of the variant to a cluster with Holdfast.
    pub(super) async fn prepare(self, cluster: &Cluster) -> Result<()> {
        match self {
            Self::Experimental => replace_crds(cluster).await,
            Self::Routes => cluster.apply(routes(ROUTES)).await,
            Self::Replicas => cluster.apply(routes(1)).await,
            Self::Refused => cluster.apply(refused_route()).await,
            Self::Plain | Self::GatesOff | Self::ProbeOff => Ok(()),
        }
    }

    /// Fails unless the objects of the variant are in the state that the variant is about.
    pub(super) async fn check(self, cluster: &Cluster) -> Result<()> {
        match self {
            Self::Refused => {
                let kinds = "httproutes,trafficpolicies,gatewayextensions";
                let objects = cluster.kubectl_output(&["get", kinds, "--namespace", OTHERS, "-o", "yaml"]).await?;
                ensure!(objects.contains("holdfast.dev/Fallback"), "Envoy has not refused the keys: {objects}");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Replaces the CRDs of the standard channel, which come with a policy that forbids this.
async fn replace_crds(cluster: &Cluster) -> Result<()> {
    let policy = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    cluster.kubectl_output(&["delete", policy, "safe-upgrades.gateway.networking.k8s.io"]).await?;
    for entry in fs::read_dir(experimental_crds()?)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("gateway.networking.k8s.io_") && !name.contains("_vap_") {
            let file = entry.path().display().to_string();
            // The API server applies the policy for a moment after its deletion.
            until("the CRD is applied", || async {
                let apply = ["apply", "--server-side", "--force-conflicts", "-f", &file];
                cluster.kubectl_output(&apply).await.map(drop)
            })
            .await?;
        }
    }
    cluster.kubectl_output(&["wait", "--for=condition=Established", "crd", "--all"]).await.map(drop)
}

/// Returns the folder of the CRDs in the module of Gateway API, which the suite is built from.
fn experimental_crds() -> Result<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/suite");
    let mut go = Command::new("go");
    go.current_dir(module).env("GOFLAGS", "-mod=mod").env("GOPROXY", "off");
    let listed = go.args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"]).output().context("no Go")?;
    let folder = Path::new(String::from_utf8_lossy(&listed.stdout).trim()).join("config/crd/experimental");
    if !folder.is_dir() {
        bail!("no CRDs of the experimental channel: {}", String::from_utf8_lossy(&listed.stderr));
    }
    Ok(folder)
}

fn namespace() -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {OTHERS}}}\n")
}

/// Returns the host of the first route with a Gateway of its own.
pub(super) fn served_host() -> String {
    host(0)
}

fn host(index: usize) -> String {
    format!("h{index}.others.example")
}

/// Returns routes with hosts of their own, and their Gateway.
fn routes(count: usize) -> String {
    let mut text = namespace();
    text += &format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: others, namespace: {OTHERS}}}\n\
         spec: {{gatewayClassName: holdfast, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n"
    );
    for index in 0..count {
        text += &format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: r{index}, namespace: {OTHERS}}}\n\
             spec: {{parentRefs: [{{name: others}}], hostnames: [{}], \
             rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{hostname: example.com}}}}]}}]}}\n",
            host(index)
        );
    }
    text
}

/// Returns a route that requires tokens, and the keys of the tokens.
fn refused_route() -> String {
    format!(
        "{}---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: refused, namespace: {OTHERS}}}\n\
         spec: {{parentRefs: [{SHARED}], hostnames: [refused.others.example], \
         rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{hostname: example.com}}}}]}}]}}\n\
         ---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
         metadata: {{name: tokens, namespace: {OTHERS}}}\n\
         spec: {{jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{SHORT_KEY}'}}}}}}]}}}}\n\
         ---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
         metadata: {{name: guard, namespace: {OTHERS}}}\n\
         spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: refused}}], \
         jwtAuth: {{extensionRef: {{name: tokens}}}}}}\n",
        namespace()
    )
}
