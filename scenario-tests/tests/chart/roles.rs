//! Rendered roles: exactly the rights that the program needs, in the namespaces where it needs them.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use holdfast_kubernetes::rights::{PermissionScope, rights};
use holdfast_scenario_tests::{Story, World, stories};
use serde_json::Value;

use super::{objects, of_kind, only, render};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "roles",
        false,
        [
            a_cluster_is_read_with_one_role,
            namespaces_are_read_with_a_role_each,
            rights_go_with_what_is_switched_off,
            no_role_is_made_where_none_is_wanted,
            what_replicas_share_needs_rights_where_they_are,
            certgen_may_write_its_own_secrets
        ]
    )
}

/// Group, resource, verb and namespace; the namespace is empty for the whole cluster.
type GrantedRights = BTreeSet<(String, String, String, String)>;

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_certgens(role: &Value) -> bool {
    role["metadata"]["labels"]["app.kubernetes.io/component"] == "certgen"
}

/// Returns the rights that the roles grant.
fn given(all: &[Value]) -> Result<GrantedRights> {
    let mut given = GrantedRights::new();
    for kind in ["ClusterRole", "Role"] {
        let bindings = of_kind(all, &format!("{kind}Binding"));
        // Certgen has a separate ServiceAccount.
        for role in of_kind(all, kind).into_iter().filter(|role| !is_certgens(role)) {
            let (name, place) = (&role["metadata"]["name"], &role["metadata"]["namespace"]);
            let bound = bindings.iter().filter(|binding| {
                binding["roleRef"]["name"] == *name
                    && binding["metadata"]["namespace"] == *place
                    && binding["subjects"][0]["namespace"] == "holdfast"
            });
            ensure!(bound.count() == 1, "{kind} {name} is not bound once");
            let namespace = place.as_str().unwrap_or_default().to_owned();
            for rule in role["rules"].as_array().into_iter().flatten() {
                for path in texts(&rule["nonResourceURLs"]) {
                    given.extend(
                        texts(&rule["verbs"])
                            .into_iter()
                            .map(|verb| (String::new(), path.clone(), verb, String::new())),
                    );
                }
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        for verb in texts(&rule["verbs"]) {
                            given.insert((group.clone(), resource.clone(), verb, namespace.clone()));
                        }
                    }
                }
            }
        }
    }
    Ok(given)
}

/// Returns the rights that the program needs in these places.
fn needed(places: &[(PermissionScope, &str)]) -> GrantedRights {
    let mut needed = GrantedRights::new();
    for right in rights() {
        for (_, namespace) in places.iter().filter(|(place, _)| *place == right.place) {
            for verb in right.verbs {
                needed.insert((right.group.into(), right.resource.clone(), (*verb).into(), (*namespace).into()));
            }
        }
    }
    needed
}

fn same(given: &GrantedRights, needed: &GrantedRights) -> Result<()> {
    let missing: Vec<_> = needed.difference(given).collect();
    let too_many: Vec<_> = given.difference(needed).collect();
    ensure!(missing.is_empty() && too_many.is_empty(), "missing: {missing:?}; too many: {too_many:?}");
    Ok(())
}

async fn a_cluster_is_read_with_one_role(world: World) -> Result<()> {
    let all = objects(&render(&world, &[]).await?)?;
    // A cluster-wide right is valid in `default` too.
    let places = [
        (PermissionScope::Cluster, ""),
        (PermissionScope::Keys, ""),
        (PermissionScope::Watched, ""),
        (PermissionScope::Planes, ""),
        (PermissionScope::Own, "holdfast"),
    ];
    same(&given(&all)?, &needed(&places))
}

async fn rights_go_with_what_is_switched_off(world: World) -> Result<()> {
    let all = objects(&render(&world, &["--set", "provision.enabled=false,xds.tokens.jwks=keys"]).await?)?;
    let given = given(&all)?;
    same(
        &given,
        &needed(&[(PermissionScope::Cluster, ""), (PermissionScope::Watched, ""), (PermissionScope::Own, "holdfast")]),
    )?;
    let writes = given.iter().filter(|(_, resource, verb, namespace)| {
        namespace.is_empty() && !["get", "list", "watch"].contains(&verb.as_str()) && !resource.ends_with("/status")
    });
    let writes: BTreeSet<&str> = writes.map(|(_, resource, ..)| resource.as_str()).collect();
    ensure!(writes == BTreeSet::from(["events"]), "{writes:?}");
    Ok(())
}

async fn namespaces_are_read_with_a_role_each(world: World) -> Result<()> {
    let all = objects(&render(&world, &["--set", "watchNamespaces={shop,infra,shop}"]).await?)?;
    let given = given(&all)?;
    let places = [
        (PermissionScope::Cluster, ""),
        (PermissionScope::Keys, ""),
        (PermissionScope::Watched, "shop"),
        (PermissionScope::Planes, "shop"),
        (PermissionScope::Watched, "infra"),
        (PermissionScope::Planes, "infra"),
        (PermissionScope::Own, "holdfast"),
        (PermissionScope::Default, "default"),
    ];
    same(&given, &needed(&places))?;
    let wide: BTreeSet<&str> = given
        .iter()
        .filter(|(_, _, _, namespace)| namespace.is_empty())
        .map(|(_, resource, ..)| resource.as_str())
        .collect();
    ensure!(
        wide == BTreeSet::from([
            "/openid/v1/jwks",
            "customresourcedefinitions",
            "gatewayclasses",
            "gatewayclasses/status",
            "namespaces",
        ]),
        "{wide:?}"
    );
    Ok(())
}

async fn what_replicas_share_needs_rights_where_they_are(world: World) -> Result<()> {
    for (args, shares) in [
        ("replicas=1", false),
        ("replicas=2", true),
        ("replicas=2,sharedStore.mode=off", false),
        ("replicas=1,sharedStore.mode=on", true),
    ] {
        let all = objects(&render(&world, &["--set", args]).await?)?;
        let mut places = vec![
            (PermissionScope::Cluster, ""),
            (PermissionScope::Keys, ""),
            (PermissionScope::Watched, ""),
            (PermissionScope::Planes, ""),
            (PermissionScope::Own, "holdfast"),
        ];
        places.extend(shares.then_some((PermissionScope::Shared, "holdfast")));
        same(&given(&all)?, &needed(&places)).with_context(|| args.to_owned())?;
    }
    Ok(())
}

/// Certgen may apply its own Secrets and nothing else, and Holdfast's ServiceAccount has none of these rights.
async fn certgen_may_write_its_own_secrets(world: World) -> Result<()> {
    let set = "xds.clientCertificates.gateways={shop/web,holdfast/a.b}";
    let all = objects(&render(&world, &["--set", set]).await?)?;
    let mut secrets = BTreeSet::new();
    for role in of_kind(&all, "Role").into_iter().filter(|role| is_certgens(role)) {
        let [rule] = &role["rules"].as_array().context("no rules")?[..] else { anyhow::bail!("{role}") };
        ensure!(
            texts(&rule["resources"]) == ["secrets"] && texts(&rule["verbs"]) == ["create", "get", "patch"],
            "{rule}"
        );
        let namespace = role["metadata"]["namespace"].as_str().context("no namespace")?;
        secrets.extend(texts(&rule["resourceNames"]).into_iter().map(|name| format!("{namespace}/{name}")));
    }
    let server = ["holdfast/holdfast-xds-certificate", "holdfast/holdfast-xds-certificate-authority"];
    let wanted = [&server[..], &["shop/web-holdfast-xds", "holdfast/a.b-holdfast-xds"]].concat();
    ensure!(secrets == wanted.into_iter().map(str::to_owned).collect(), "{secrets:?}");
    for binding in of_kind(&all, "RoleBinding").into_iter().filter(|role| is_certgens(role)) {
        ensure!(binding["subjects"][0]["name"] == "holdfast-certgen", "{binding}");
    }
    ensure!(!of_kind(&all, "ClusterRole").into_iter().any(is_certgens), "no webhook needs authorities");
    certgen_may_set_the_authorities_of_one_webhook(&world).await?;
    let job = only(&all, "Job")?;
    ensure!(job["spec"]["template"] == only(&all, "CronJob")?["spec"]["jobTemplate"]["spec"]["template"], "{job}");
    for set in ["xds.tls.source=helm", "xds.tls.existingSecret=own", "xds.tls.enabled=false"] {
        let all = objects(&render(&world, &["--set", set]).await?)?;
        ensure!(of_kind(&all, "Job").is_empty() && !of_kind(&all, "Role").into_iter().any(is_certgens), "{set}");
    }
    Ok(())
}

async fn certgen_may_set_the_authorities_of_one_webhook(world: &World) -> Result<()> {
    let all = objects(&render(world, &["--set", "webhook.enabled=true"]).await?)?;
    let configuration = only(&all, "ValidatingWebhookConfiguration")?;
    let webhook = &configuration["webhooks"][0];
    ensure!(webhook["failurePolicy"] == "Ignore" && webhook["sideEffects"] == "None", "{webhook}");
    ensure!(webhook["clientConfig"]["caBundle"].is_null() && webhook["namespaceSelector"].is_null(), "{webhook}");
    let roles: Vec<&Value> = of_kind(&all, "ClusterRole").into_iter().filter(|role| is_certgens(role)).collect();
    let [role] = roles[..] else { anyhow::bail!("{} roles", roles.len()) };
    let [rule] = &role["rules"].as_array().context("no rules")?[..] else { anyhow::bail!("{role}") };
    ensure!(texts(&rule["resources"]) == ["validatingwebhookconfigurations"], "{rule}");
    ensure!(texts(&rule["verbs"]) == ["get", "patch"], "{rule}");
    ensure!(
        texts(&rule["resourceNames"]) == [configuration["metadata"]["name"].as_str().unwrap_or_default()],
        "{rule}"
    );
    let args = texts(&only(&all, "Job")?["spec"]["template"]["spec"]["containers"][0]["args"]);
    ensure!(args.contains(&"--webhook-configuration=holdfast-holdfast".to_owned()), "{args:?}");
    ensure!(args.iter().any(|arg| arg.contains("holdfast-webhook.holdfast.svc")), "{args:?}");
    let set = "webhook.enabled=true,watchNamespaces={shop,infra}";
    let all = objects(&render(world, &["--set", set]).await?)?;
    let webhook = &only(&all, "ValidatingWebhookConfiguration")?["webhooks"][0];
    ensure!(
        webhook
            .pointer("/namespaceSelector/matchExpressions/0/values")
            .is_some_and(|it| texts(it) == ["shop", "infra"]),
        "{webhook}"
    );
    Ok(())
}

async fn no_role_is_made_where_none_is_wanted(world: World) -> Result<()> {
    let all = objects(&render(&world, &["--set", "rbac.create=false"]).await?)?;
    ensure!(given(&all)?.is_empty());
    Ok(())
}
