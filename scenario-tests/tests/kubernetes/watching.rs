//! Watches of kinds that are installed later.

use anyhow::Result;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Story, World, manifests, stories};

use super::serving::{answers, backend, gateway, options, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("watching", true, [a_kind_that_comes_later_is_picked_up])
}

async fn a_kind_that_comes_later_is_picked_up(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    cluster.install("gateway-api").await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let (plain, tls) = (world.port()?.to_string(), world.port()?.to_string());
    let options = options(&world, &cluster)?.args(&["--httpproxy-http", &plain, "--httpproxy-https", &tls]);
    let holdfast = world.run_with(options).await?;
    holdfast.comes_to_print(&["projectcontour.io/HTTPProxy: the API server does not serve this kind"]).await?;
    answers(port, "/one", 200).await?;
    cluster.install("contour").await?;
    cluster
        .apply(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: p, namespace: default}\n\
             spec:\n  virtualhost: {fqdn: a.example.com}\n  \
             routes: [{conditions: [{prefix: /three}], services: [{name: echo, port: 8080}]}]\n",
        )
        .await?;
    answers(plain.parse()?, "/three", 200).await
}
