//! The folder of manifests as people and tools really change it.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::ask::get;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, http_route};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "files",
        true,
        [
            half_written_file_keeps_its_objects,
            config_map_is_swapped,
            file_is_deleted_and_comes_back,
            one_of_two_folders,
            object_moves_to_another_file,
            undecodable_object_beside_good_ones,
        ]
    )
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

async fn half_written_file_keeps_its_objects(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    let both = documents(&[http_route("one", &prefix("/one", "one")), http_route("two", &prefix("/two", "two"))]);
    world.write("routes.yaml", &both)?;
    let holdfast = world.run().await?;
    get(port, "/one").comes_to_reach("one").await?;
    get(port, "/two").comes_to_reach("two").await?;
    let load = Hammer::start([get(port, "/one"), get(port, "/two")]);
    // Cut at several places of the second object, written in place as an editor would.
    let path = world.manifests().join("routes.yaml");
    for cut in [both.len() - 3, both.len() - 30, both.len() / 2 + 40, both.len() / 2 + 8] {
        fs::write(&path, format!("{}\n  broken: [", both.get(..cut).unwrap_or_default()))?;
        load.goes_on(40).await?;
        world.write("routes.yaml", &both)?;
        load.goes_on(20).await?;
    }
    world.write("routes.yaml", format!("{both}\n---\nkind: [half"))?;
    holdfast.comes_to_say(&["routes.yaml"]).await?;
    load.goes_on(100).await?;
    load.stop_expecting(Shot::is_ok).await?;
    // What is whole again counts again.
    world.write("routes.yaml", http_route("one", &prefix("/new", "one")))?;
    get(port, "/new").comes_to_reach("one").await?;
    get(port, "/two").comes_to_answer(404).await?;
    Ok(())
}

/// As a kubelet does it: a new folder, a new link to it renamed over the old one, the files being links through it.
async fn config_map_is_swapped(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    let mount = world.folder().join("mount");
    fs::create_dir(&mount)?;
    let publish = |version: &str, text: &str| -> Result<()> {
        let folder = mount.join(format!("..{version}"));
        fs::create_dir(&folder)?;
        fs::write(folder.join("route.yaml"), text)?;
        symlink(format!("..{version}"), mount.join("..data_tmp"))?;
        fs::rename(mount.join("..data_tmp"), mount.join("..data"))?;
        Ok(())
    };
    publish("v1", &http_route("moving", &prefix("/a", "one")))?;
    symlink("..data/route.yaml", mount.join("route.yaml"))?;
    let mut options = HoldfastOptions::new(&world)?;
    options.manifests.push(mount.clone());
    let _holdfast = world.run_with(options).await?;
    get(port, "/a").comes_to_reach("one").await?;
    let load = Hammer::start([get(port, "/a")]);
    for (version, backend) in [("v2", "two"), ("v3", "one"), ("v4", "two")] {
        publish(version, &http_route("moving", &prefix("/a", backend)))?;
        get(port, "/a").comes_to_reach(backend).await?;
    }
    fs::remove_dir_all(mount.join("..v1"))?;
    load.goes_on(30).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn file_is_deleted_and_comes_back(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let _holdfast = world.run().await?;
    for _ in 0..3 {
        world.route("one", &prefix("/one", "one"))?;
        get(port, "/one").comes_to_reach("one").await?;
        world.delete("route-one.yaml")?;
        get(port, "/one").comes_to_answer(404).await?;
    }
    Ok(())
}

async fn one_of_two_folders(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let second = world.folder().join("second/deeper");
    fs::create_dir_all(&second)?;
    fs::write(second.join("route.yml"), http_route("far", &prefix("/far", "one")))?;
    fs::write(second.join("README.md"), "# not: a manifest [")?;
    fs::write(second.join(".hidden.yaml"), "not: [a manifest")?;
    let mut options = HoldfastOptions::new(&world)?;
    options.manifests.push(second.clone());
    let _holdfast = world.run_with(options).await?;
    get(port, "/far").comes_to_reach("one").await?;
    fs::write(second.join("route.yml"), http_route("far", &prefix("/further", "one")))?;
    get(port, "/further").comes_to_reach("one").await?;
    Ok(())
}

/// First it stands in both files, then in the new one only: nothing is missing in between.
async fn object_moves_to_another_file(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let text = http_route("mover", &prefix("/one", "one"));
    world.write("first.yaml", &text)?;
    let _holdfast = world.run().await?;
    get(port, "/one").comes_to_reach("one").await?;
    let load = Hammer::start([get(port, "/one")]);
    world.write("second.yaml", &text)?;
    load.goes_on(60).await?;
    world.delete("first.yaml")?;
    load.goes_on(60).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// An object that cannot be decoded is its own fault: its neighbours in the same file are served, changes included.
async fn undecodable_object_beside_good_ones(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let bad = http_route("bad", "rules: {not: a list}");
    let file = |path: &str| {
        documents(&[http_route("good", &prefix(path, "one")), bad.clone(), manifests::namespace("extra", "a: b")])
    };
    world.write("routes.yaml", file("/one"))?;
    let holdfast = world.run().await?;
    get(port, "/one").comes_to_reach("one").await?;
    world.write("routes.yaml", file("/two"))?;
    get(port, "/two").comes_to_reach("one").await?;
    holdfast.comes_to_say(&["routes.yaml", "bad", "spec.rules"]).await?;
    ensure!(get(port, "/one").send().await?.status.as_u16() == 404);
    Ok(())
}
