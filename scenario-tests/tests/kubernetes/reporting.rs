//! The fallback as users with kubectl see it: Events, statuses, diagnostics and traffic, from good to broken, over a
//! restart, to corrected, broken again and deleted.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, manifests, request::get, stories, until};

use super::serving::{backend, gateway, options, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("reporting", true, [a_broken_http_route, a_broken_http_proxy, a_broken_traffic_policy, what_is_served])
}

const POD: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: infra}\n---\napiVersion: v1\nkind: Pod\n\
                   metadata: {name: holdfast-0, namespace: infra}\nspec: {containers: [{name: holdfast, image: none}]}\n";

/// Expected response to a request.
struct Shows {
    path: &'static str,
    status: u16,
    /// The value of the header that a policy sets.
    policy: &'static str,
}

/// The lifecycle of one object.
struct Tale {
    kind: &'static str,
    name: &'static str,
    /// The path of its conditions.
    conditions: &'static str,
    good: String,
    broken: String,
    mended: String,
    port: u16,
    when_good: Shows,
    when_mended: Shows,
    when_deleted: Shows,
}

/// Returns options of Holdfast in the Pod `infra/holdfast-0`, with the gates of the fallback.
pub(super) async fn in_a_pod(world: &World, cluster: &Cluster) -> Result<HoldfastOptions> {
    cluster.apply(POD).await?;
    let uid =
        cluster.kubectl_output(&["get", "pod", "-n", "infra", "holdfast-0", "-o", "jsonpath={.metadata.uid}"]).await?;
    let options = options(world, cluster)?.args(&[
        "--feature-gates",
        "FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
        "--lease-namespace",
        "infra",
    ]);
    Ok(options.env("POD_NAME", "holdfast-0").env("POD_NAMESPACE", "infra").env("POD_UID", &uid))
}

/// Waits until `kubectl get events` shows an Event of this reason on this object with this text in its message.
pub(super) async fn event(cluster: &Cluster, reason: &str, on: &str, words: &str) -> Result<()> {
    let selector = format!("reason={reason}");
    let columns = "jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.message}{\"\\n\"}{end}";
    until(&format!("an Event {reason} stands on {on}"), || async {
        let events =
            cluster.kubectl_output(&["get", "events", "-A", "--field-selector", &selector, "-o", columns]).await?;
        let found = events.lines().any(|line| line.starts_with(&format!("{on} ")) && line.contains(words));
        ensure!(found, "there are:\n{events}");
        Ok(())
    })
    .await
}

impl Tale {
    async fn shows(&self, shows: &Shows) -> Result<()> {
        let Shows { path, status, policy } = shows;
        until(&format!("{path} answers {status} {policy}"), || async {
            let reply = get(self.port, path).host("a.example.com").send().await?;
            let seen = (reply.status.as_u16(), reply.header("x-policy"));
            ensure!(seen.0 == *status && seen.1 == *policy, "{seen:?}: {}", reply.body);
            Ok(())
        })
        .await
    }

    /// Returns the reason of the fallback condition, which must be of the newest generation.
    async fn fallback(&self, cluster: &Cluster) -> Result<String> {
        let of = |field: &str| format!("{{{}[?(@.type==\"holdfast.dev/Fallback\")].{field}}}", self.conditions);
        let path = format!("jsonpath={{.metadata.generation}} {} {}", of("observedGeneration"), of("reason"));
        let output = cluster.kubectl_output(&["get", self.kind, self.name, "-o", &path]).await?;
        let words: Vec<&str> = output.split_whitespace().collect();
        ensure!(words.len() < 2 || words.first() == words.get(1), "of another generation: {output}");
        Ok(words.get(2).copied().unwrap_or_default().to_owned())
    }

    async fn condition_becomes(&self, cluster: &Cluster, wanted: &str) -> Result<()> {
        until(&format!("the status of {} says {wanted:?}", self.name), || async {
            let reason = self.fallback(cluster).await?;
            ensure!(reason == wanted, "{reason:?}");
            Ok(())
        })
        .await
    }

    /// Checks that status and diagnostics report the object as broken.
    async fn is_reported(&self, cluster: &Cluster, holdfast: &Holdfast) -> Result<()> {
        self.condition_becomes(cluster, "Backfilled").await?;
        let page = holdfast.diagnostics("/debug/config/fallback").await?;
        let uid = cluster.kubectl_output(&["get", self.kind, self.name, "-o", "jsonpath={.metadata.uid}"]).await?;
        ensure!(page["status"] == "triggered" && page["brokenObjects"][0]["id"] == *uid, "{page}");
        ensure!(page["backfilledObjects"][0]["servedGeneration"] == 1, "{page}");
        Ok(())
    }

    async fn nothing_is_reported(&self, holdfast: &Holdfast) -> Result<()> {
        until("nothing is in fallback", || async {
            let page = holdfast.diagnostics("/debug/config/fallback").await?;
            ensure!(page["status"] == "not-triggered", "{page}");
            Ok(())
        })
        .await
    }

    async fn run(&self, world: &World, cluster: &Cluster, options: HoldfastOptions) -> Result<()> {
        cluster.apply(&self.good).await?;
        let holdfast = world.run_with(options.clone()).await?;
        self.shows(&self.when_good).await?;
        event(cluster, "ConfigurationSucceeded", "Pod/holdfast-0", "").await?;
        self.condition_becomes(cluster, "").await?;

        cluster.apply(&self.broken).await?;
        let words = "successfully applied fallback configuration to ";
        event(cluster, "FallbackConfigurationSucceeded", "Pod/holdfast-0", words).await?;
        // The owner of the Gateway has no rights in Holdfast's namespace. HTTPProxies have no Gateway here.
        if self.kind != "httpproxy" {
            event(cluster, "FallbackConfigurationSucceeded", "Gateway/public", words).await?;
        }
        let kind = cluster.kubectl_output(&["get", self.kind, self.name, "-o", "jsonpath={.kind}"]).await?;
        let on = format!("{kind}/{}", self.name);
        event(cluster, "ConfigurationTranslationFailed", &on, "").await?;
        event(cluster, "Backfilled", &on, "generation 2 was refused").await?;
        let described = cluster.kubectl_output(&["describe", self.kind, self.name]).await?;
        ensure!(described.contains("Warning  Backfilled"), "{described}");
        self.is_reported(cluster, &holdfast).await?;
        self.shows(&self.when_good).await?;

        // A restarted Holdfast still has this state.
        drop(holdfast);
        let holdfast = world.run_with(options).await?;
        self.shows(&self.when_good).await?;
        self.is_reported(cluster, &holdfast).await?;

        cluster.apply(&self.mended).await?;
        self.shows(&self.when_mended).await?;
        event(cluster, "Recovered", &on, "").await?;
        self.condition_becomes(cluster, "").await?;
        self.nothing_is_reported(&holdfast).await?;

        cluster.apply(&self.broken).await?;
        self.condition_becomes(cluster, "Backfilled").await?;
        self.shows(&self.when_mended).await?;
        cluster.kubectl_output(&["delete", self.kind, self.name]).await?;
        self.shows(&self.when_deleted).await?;
        self.nothing_is_reported(&holdfast).await
    }
}

const fn shows(path: &'static str, status: u16, policy: &'static str) -> Shows {
    Shows { path, status, policy }
}

async fn a_broken_http_route(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    // The API server accepts a regular expression that Envoy cannot compile.
    let broken = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]\n  \
                  backendRefs: [{name: echo, port: 8080}]";
    let tale = Tale {
        kind: "httproute",
        name: "r",
        conditions: ".status.parents[0].conditions",
        good: manifests::http_route("r", &rule("/one")),
        broken: manifests::http_route("r", broken),
        mended: manifests::http_route("r", &rule("/two")),
        port,
        when_good: shows("/one", 200, ""),
        when_mended: shows("/two", 200, ""),
        when_deleted: shows("/two", 404, ""),
    };
    let options = in_a_pod(&world, &cluster).await?;
    tale.run(&world, &cluster, options).await
}

async fn a_broken_http_proxy(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    cluster.apply(manifests::class()).await?;
    let (port, tls) = (world.port()?, world.port()?);
    let named = |name: &str, host: &str, conditions: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: default}}\n\
             spec:\n  virtualhost: {{fqdn: {host}}}\n  \
             routes: [{{conditions: [{conditions}], services: [{{name: echo, port: 8080}}]}}]\n"
        )
    };
    let proxy = |conditions: &str| named("p", "a.example.com", conditions);
    // Without any proxy there would be no listener.
    cluster.apply(named("other", "b.example.com", "{prefix: /}")).await?;
    let tale = Tale {
        kind: "httpproxy",
        name: "p",
        conditions: ".status.conditions",
        good: proxy("{prefix: /one}"),
        broken: proxy("{prefix: /one}, {header: {name: x, regex: \"(\"}}"),
        mended: proxy("{prefix: /two}"),
        port,
        when_good: shows("/one", 200, ""),
        when_mended: shows("/two", 200, ""),
        when_deleted: shows("/two", 404, ""),
    };
    let options = in_a_pod(&world, &cluster).await?;
    let (port, tls) = (port.to_string(), tls.to_string());
    tale.run(&world, &cluster, options.args(&["--httpproxy-http", &port, "--httpproxy-https", &tls])).await
}

async fn a_broken_traffic_policy(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let policy = |value: &str, more: &str| {
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
             metadata: {{name: t, namespace: default}}\nspec:\n  \
             targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}]\n  \
             headerModifiers: {{response: {{set: [{{name: x-policy, value: {value}}}]}}}}\n{more}"
        )
    };
    let tale = Tale {
        kind: "trafficpolicy",
        name: "t",
        conditions: ".status.ancestors[0].conditions",
        good: policy("one", ""),
        broken: policy("broken", "  urlRewrite: {pathRegex: {pattern: \"(\", substitution: /}}\n"),
        mended: policy("two", ""),
        port,
        when_good: shows("/one", 200, "one"),
        when_mended: shows("/one", 200, "two"),
        when_deleted: shows("/one", 200, ""),
    };
    let options = in_a_pod(&world, &cluster).await?;
    tale.run(&world, &cluster, options).await
}

async fn what_is_served(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let port = gateway(&world, &cluster).await?;
    ensure!(port > 0);
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    let features = until("the class says what is served", || async {
        let path = "jsonpath={.status.supportedFeatures[*].name}";
        let output = cluster.kubectl_output(&["get", "gatewayclass", manifests::CLASS, "-o", path]).await?;
        ensure!(!output.is_empty(), "nothing yet");
        Ok(output)
    })
    .await?;
    let features: Vec<&str> = features.split_whitespace().collect();
    ensure!(features == holdfast_api::status::features::supported(false), "{features:?}");
    let path = "jsonpath={.status.conditions[?(@.type==\"Accepted\")].status}";
    let accepted =
        cluster.kubectl_output(&["get", "gatewayclass", manifests::CLASS, "-o", path]).await.context("Accepted")?;
    ensure!(accepted == "True", "{accepted}");
    Ok(())
}
