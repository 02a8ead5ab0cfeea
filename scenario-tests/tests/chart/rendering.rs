//! Rendered chart: lint has no findings, invalid values are rejected, Pods are as restricted as possible.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};
use serde_json::{Value, json};

use super::{chart, full, helm, objects, of_kind, only, render};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "rendering",
        false,
        [
            lint_finds_nothing,
            wrong_values_are_refused,
            values_without_effect_are_refused,
            every_value_is_set_by_the_full_ones,
            pods_are_restricted,
            the_store_has_a_volume_or_a_folder,
            the_probe_has_a_container_where_it_is_wanted,
            a_key_that_is_named_is_not_made,
            crds_are_rendered_where_enabled,
        ]
    )
}

async fn lint_finds_nothing(world: World) -> Result<()> {
    let chart = chart().display().to_string();
    for values in [None, Some(full())] {
        let mut args = vec!["lint", "--strict", &chart];
        if let Some(values) = &values {
            args.extend(["--values", values]);
        }
        let finished = helm(&world, &args).await?;
        finished.expect_code(0)?.expect_output(&["0 chart(s) failed"])?;
        ensure!(
            !finished.output().contains("[WARNING]") && !finished.output().contains("[ERROR]"),
            "{}",
            finished.output()
        );
    }
    Ok(())
}

async fn refused(world: &World, set: &str, expected: &str) -> Result<()> {
    let chart = chart().display().to_string();
    let finished = helm(world, &["template", "holdfast", &chart, "--set-json", set]).await?;
    ensure!(finished.code != Some(0), "{set} is taken");
    ensure!(finished.stderr.contains(expected), "{set}: {expected:?} is missing in: {}", finished.stderr);
    Ok(())
}

async fn wrong_values_are_refused(world: World) -> Result<()> {
    for (set, expected) in [
        ("repplicas=2", "repplicas"),
        ("probe.mod=\"on\"", "mod"),
        ("featureGates.Telepathy=true", "Telepathy"),
        ("crds.istio=true", "istio"),
        ("replicas=\"two\"", "replicas"),
        ("replicas=99", "replicas"),
        ("probe.mode=\"maybe\"", "mode"),
        ("featureGates.FallbackConfiguration=\"yes\"", "FallbackConfiguration"),
        ("replacement.responseCode=99", "responseCode"),
        ("replacement.policyResponseCode=200", "policyResponseCode"),
        ("ackTimeout=\"10\"", "ackTimeout"),
        ("watchNamespaces=[\"a/b\"]", "watchNamespaces"),
        ("httpProxy.gateway=\"public\"", "gateway"),
        ("image.digest=\"latest\"", "digest"),
        ("metrics.prometheusRule.runbookUrl=\"https://example.com/\"", "runbookUrl"),
    ] {
        refused(&world, set, expected).await?;
    }
    Ok(())
}

async fn values_without_effect_are_refused(world: World) -> Result<()> {
    for (set, expected) in [
        ("fallback.useLastValidConfig=true", "featureGates.FallbackConfiguration"),
        ("featureGates.BackfillUnresolvedReferences=true", "fallback.useLastValidConfig"),
        ("fallback.maxBackfillAge=\"24h\"", "fallback.useLastValidConfig"),
        ("rateLimit.failOpen=true", "rateLimit.service"),
        ("httpProxy.httpsPort=8080", "two ports"),
        ("diagnostics.port=10255", "four ports"),
        ("webhook.port=10256", "four ports"),
        ("webhook.caBundle=\"x\"", "webhook.enabled"),
        (r#"xds={"tls":{"source":"helm"}},webhook={"enabled":true}"#, "webhook.caBundle"),
        (r#"xds={"tls":{"enabled":false}},webhook={"enabled":true,"caBundle":"x"}"#, "xds.tls.enabled"),
        ("xds.tokens.enabled=false", "xds.clientCertificates"),
        (r#"xds={"tls":{"source":"helm"},"clientCertificates":{"gateways":["shop/web"]}}"#, "xds.tls.source=certgen"),
        ("provision.gatewayAddresses=[\"203.0.113.1\"]", "provision.enabled"),
        ("serviceAccount.create=false", "serviceAccount.name"),
    ] {
        refused(&world, set, expected).await?;
    }
    Ok(())
}

/// Values that only disable something, or that override another value.
const LEFT: [&str; 20] = [
    "crds.contour",
    "crds.gatewayApi",
    "crds.kgateway",
    "featureGates.InvalidRouteReplacement",
    "gatewayClass.create",
    "image.tag",
    "metrics.dashboard.labels",
    "nameOverride",
    "networkPolicy.enabled",
    "persistence.emptyDirSizeLimit",
    "persistence.enabled",
    "podDisruptionBudget.enabled",
    "provision.enabled",
    "provision.gatewayAddresses",
    "rbac.create",
    "serviceAccount.create",
    "storeKey.enabled",
    "xds.clientCertificates.gateways",
    "xds.tls.enabled",
    "xds.tokens.enabled",
];

async fn every_value_is_set_by_the_full_ones(_world: World) -> Result<()> {
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(chart().join("values.yaml"))?)?;
    let full: Value = serde_saphyr::from_str(&std::fs::read_to_string(full())?)?;
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(chart().join("values.schema.json"))?)?;
    let mut left = Vec::new();
    unset(&schema, &values, &full, "", &mut left);
    left.retain(|path| !LEFT.contains(&path.as_str()));
    ensure!(left.is_empty(), "tests/chart/full.yaml does not set {left:?}");
    Ok(())
}

fn unset(schema: &Value, values: &Value, full: &Value, path: &str, left: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else {
        if full.is_null() || full == values {
            left.push(path.to_owned());
        }
        return;
    };
    for (name, below) in properties.iter().filter(|(name, _)| !values[name.as_str()].is_null()) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        unset(below, &values[name], &full[name], &path, left);
    }
}

async fn pods_are_restricted(world: World) -> Result<()> {
    for args in [vec![], vec!["--values", &full()], vec!["--set", "persistence.enabled=false"]] {
        let all = objects(&render(&world, &args).await?)?;
        let workloads = [of_kind(&all, "StatefulSet"), of_kind(&all, "Deployment")].concat();
        ensure!(workloads.len() == 1, "{} workloads", workloads.len());
        for workload in [workloads, of_kind(&all, "Job")].concat() {
            let pod = &workload["spec"]["template"]["spec"];
            ensure!(pod["securityContext"]["runAsNonRoot"] == true);
            ensure!(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault");
            for shared in ["hostNetwork", "hostPID", "hostIPC"] {
                ensure!(pod[shared].is_null(), "{shared}");
            }
            let containers = [&pod["containers"], &pod["initContainers"]];
            for container in containers.into_iter().filter_map(Value::as_array).flatten() {
                let context = &container["securityContext"];
                ensure!(context["readOnlyRootFilesystem"] == true && context["allowPrivilegeEscalation"] == false);
                ensure!(context["capabilities"] == json!({"drop": ["ALL"]}), "{context}");
            }
            if workload["kind"] == "Job" {
                continue;
            }
            for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
                ensure!(pod["containers"][0][probe]["httpGet"]["path"] == path, "{probe}");
            }
        }
    }
    Ok(())
}

async fn the_store_has_a_volume_or_a_folder(world: World) -> Result<()> {
    let all = objects(&render(&world, &[]).await?)?;
    let claims = &only(&all, "StatefulSet")?["spec"]["volumeClaimTemplates"];
    ensure!(claims[0]["spec"]["resources"]["requests"]["storage"] == "1Gi", "{claims}");
    let all = objects(&render(&world, &["--set", "persistence.enabled=false"]).await?)?;
    let deployment = only(&all, "Deployment")?;
    ensure!(deployment["spec"]["template"]["spec"]["volumes"].to_string().contains("512Mi"), "{deployment}");
    Ok(())
}

async fn the_probe_has_a_container_where_it_is_wanted(world: World) -> Result<()> {
    for (set, has_one) in [("probe.mode=on", true), ("probe.mode=off", false), ("probe.sidecar=false", false)] {
        let all = objects(&render(&world, &["--set", set]).await?)?;
        let pod = &only(&all, "StatefulSet")?["spec"]["template"]["spec"];
        let named: Vec<_> = pod["containers"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
        ensure!(named.iter().any(|name| **name == "probe") == has_one, "{set}: {named:?}");
        let has_flag = pod["containers"][0]["args"].to_string().contains("--probe-folder=/run/holdfast-probe");
        ensure!(has_flag == has_one, "{set}: {}", pod["containers"][0]["args"]);
    }
    Ok(())
}

async fn a_key_that_is_named_is_not_made(world: World) -> Result<()> {
    let made = objects(&render(&world, &[]).await?)?;
    let kept = of_kind(&made, "Secret").into_iter().filter(|secret| secret["metadata"]["name"] == "holdfast-store-key");
    let kept: Vec<&Value> = kept.collect();
    ensure!(kept.len() == 1 && kept[0]["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", "{kept:?}");
    for set in ["storeKey.existingSecret=own", "storeKey.enabled=false"] {
        let all = objects(&render(&world, &["--set", set]).await?)?;
        let keys =
            of_kind(&all, "Secret").into_iter().filter(|secret| secret["metadata"]["name"] == "holdfast-store-key");
        ensure!(keys.count() == 0, "{set} makes a key");
        let named = only(&all, "StatefulSet")?.to_string().contains("\"secretName\":\"own\"");
        ensure!(named == set.ends_with("own"), "{set}");
    }
    Ok(())
}

async fn crds_are_rendered_where_enabled(world: World) -> Result<()> {
    for (value, one) in [
        ("crds.gatewayApi", "httproutes.gateway.networking.k8s.io"),
        ("crds.contour", "httpproxies.projectcontour.io"),
        ("crds.kgateway", "trafficpolicies.gateway.kgateway.dev"),
    ] {
        let without = render(&world, &["--include-crds"]).await?;
        ensure!(!without.contains(&format!("name: {one}\n")), "{one} comes without being asked for");
        let with = render(&world, &["--include-crds", "--set", &format!("{value}=true")]).await?;
        ensure!(with.contains(&format!("name: {one}\n")), "{value} brings no {one}");
    }
    Ok(())
}
