//! The test cluster itself, on which other stories depend.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!("cluster", false, [every_kind_is_served])
}

async fn every_kind_is_served(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let served = cluster.kubectl_output(&["api-resources", "--no-headers", "-o", "name"]).await?;
    for kind in holdfast_api::apis::KINDS {
        let name =
            if kind.group.is_empty() { kind.plural.to_owned() } else { format!("{}.{}", kind.plural, kind.group) };
        ensure!(served.lines().any(|line| line == name), "{name} is not among\n{served}");
    }
    Ok(())
}
