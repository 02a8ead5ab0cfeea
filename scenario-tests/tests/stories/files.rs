//! The folder of manifests, changed as users and tools change it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, http_route};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

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
            older_route_keeps_its_path,
            file_is_emptied_before_it_is_written,
            links_to_nowhere_keep_what_was_read,
            policy_that_becomes_a_pipe_protects,
            slow_writer_deletes_nothing,
            policy_that_is_cut_protects,
            list_without_items_deletes_nothing,
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
    // Truncated at several places of the second object, written in place as by an editor.
    let path = world.manifests().join("routes.yaml");
    for cut in [both.len() - 3, both.len() - 30, both.len() / 2 + 40, both.len() / 2 + 8] {
        fs::write(&path, format!("{}\n  broken: [", both.get(..cut).unwrap_or_default()))?;
        load.goes_on(40).await?;
        world.write("routes.yaml", &both)?;
        load.goes_on(20).await?;
    }
    world.write("routes.yaml", format!("{both}\n---\nkind: [half"))?;
    holdfast.comes_to_print(&["routes.yaml"]).await?;
    load.goes_on(100).await?;
    load.stop_expecting(Shot::is_ok).await?;
    // A complete file takes effect again.
    world.write("routes.yaml", http_route("one", &prefix("/new", "one")))?;
    get(port, "/new").comes_to_reach("one").await?;
    get(port, "/two").comes_to_answer(404).await?;
    Ok(())
}

/// As a kubelet does: a new folder, a new link to it renamed over the old one; the files are links through it.
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

/// An object is in both files, then in the new one only: it is never missing.
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

/// An object that cannot be decoded does not affect other objects in the same file: they are served, changes included.
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
    holdfast.comes_to_print(&["routes.yaml", "bad", "spec.rules"]).await?;
    ensure!(get(port, "/one").send().await?.status.as_u16() == 404);
    Ok(())
}

/// Without creation times the route that was read first is the older one, whatever the names are, also after a restart.
async fn older_route_keeps_its_path(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("victim", &prefix("/shared", "one"))?;
    let holdfast = world.run().await?;
    get(port, "/shared").comes_to_reach("one").await?;
    world.write(
        "aaa.yaml",
        documents(&[http_route("aaa", &prefix("/shared", "two")), http_route("seen", &prefix("/seen", "two"))]),
    )?;
    get(port, "/seen").comes_to_reach("two").await?;
    get(port, "/shared").reaches("one").await?;
    let options = holdfast.options.clone();
    holdfast.terminate().await?;
    let _again = world.run_with(options).await?;
    get(port, "/seen").comes_to_reach("two").await?;
    get(port, "/shared").reaches("one").await?;
    // The older route is deleted: the younger one gets the path, and keeps it against a third.
    world.delete("route-victim.yaml")?;
    get(port, "/shared").comes_to_reach("two").await?;
    world.route("aa", &prefix("/shared", "one"))?;
    world.route("third", &prefix("/third", "one"))?;
    get(port, "/third").comes_to_reach("one").await?;
    get(port, "/shared").reaches("two").await?;
    Ok(())
}

/// `generator > all.yaml`: the shell empties the file, and the generator writes it a second later.
async fn file_is_emptied_before_it_is_written(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    let all = fs::read_to_string(world.manifests().join("gateway.yaml"))?;
    world.delete("gateway.yaml")?;
    let all = documents(&[all, http_route("one", &prefix("/one", "one"))]);
    world.write("all.yaml", &all)?;
    let holdfast = world.run().await?;
    get(port, "/one").comes_to_reach("one").await?;
    let load = Hammer::start([get(port, "/one")]);
    world.write("all.yaml", "")?;
    load.goes_on(200).await?;
    get(port, "/one").reaches("one").await?;
    holdfast.comes_to_print(&["all.yaml", "the file is empty and contained"]).await?;
    load.goes_on(200).await?;
    world.write("all.yaml", documents(&[all, http_route("two", &prefix("/two", "two"))]))?;
    get(port, "/two").comes_to_reach("two").await?;
    load.goes_on(60).await?;
    load.stop_expecting(Shot::is_ok).await?;
    // To delete the objects, delete the file.
    world.delete("all.yaml")?;
    let ended = || async {
        ensure!(holdfast.envoys().is_empty(), "it runs");
        Ok(())
    };
    until("the Envoy ends", ended).await?;
    Ok(())
}

/// Returns a policy that requires a password for a route.
fn password(name: &str, route: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}]\n  \
         basicAuth: {{users: ['alice:{{SHA}}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}}\n"
    )
}

/// Waits until `holdfast status` exits with code 1 and prints all of these texts.
async fn status_comes_to_print(world: &World, holdfast: &Holdfast, words: &[&str]) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let check = || async {
        let finished = world.command(&["status", "--diagnostics", &address]).await?;
        finished.expect_code(1)?.expect_output(words)?;
        Ok(())
    };
    until(&format!("status says {words:?}"), check).await
}

/// Writes a route that a policy protects, at `/closed`, and one without protection, at `/open`.
fn two_routes(world: &World) -> Result<()> {
    world.route("closed", &prefix("/closed", "one"))?;
    world.route("open", &prefix("/open", "one"))
}

/// A volume with a policy and a folder of routes is unmounted for a while.
async fn links_to_nowhere_keep_what_was_read(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    two_routes(&world)?;
    let volume = world.folder().join("volume");
    fs::create_dir_all(volume.join("team"))?;
    fs::write(volume.join("policy.yaml"), password("p", "closed"))?;
    fs::write(volume.join("team/route.yaml"), http_route("linked", &prefix("/linked", "one")))?;
    symlink(volume.join("policy.yaml"), world.manifests().join("linked-policy.yaml"))?;
    symlink(volume.join("team"), world.manifests().join("team"))?;
    let holdfast = world.run().await?;
    get(port, "/linked").comes_to_reach("one").await?;
    get(port, "/closed").comes_to_answer(401).await?;
    let (open, closed) = (Hammer::start([get(port, "/linked")]), Hammer::start([get(port, "/closed")]));
    fs::rename(&volume, world.folder().join("unmounted"))?;
    status_comes_to_print(&world, &holdfast, &["linked-policy.yaml", "symbolic link", "/team"]).await?;
    // Readable files change, for longer than a deleted policy still protects.
    world.delete("route-open.yaml")?;
    get(port, "/open").comes_to_answer(404).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    closed.goes_on(50).await?;
    open.goes_on(50).await?;
    closed.stop_expecting(|shot| !shot.passed()).await?;
    open.stop_expecting(Shot::is_ok).await?;
    // Deleting a link deletes its objects.
    fs::remove_file(world.manifests().join("team"))?;
    get(port, "/linked").comes_to_answer(404).await?;
    fs::remove_file(world.manifests().join("linked-policy.yaml"))?;
    get(port, "/closed").comes_to_reach("one").await?;
    Ok(())
}

async fn policy_that_becomes_a_pipe_protects(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    two_routes(&world)?;
    world.write("policy.yaml", password("p", "closed"))?;
    let holdfast = world.run().await?;
    get(port, "/open").comes_to_reach("one").await?;
    get(port, "/closed").comes_to_answer(401).await?;
    let load = Hammer::start([get(port, "/closed"), get(port, "/open")]);
    for name in ["policy.yaml", "route-open.yaml"] {
        let pipe = world.folder().join("pipe");
        ensure!(Command::new("mkfifo").arg(&pipe).status()?.success(), "mkfifo");
        fs::rename(&pipe, world.manifests().join(name))?;
    }
    status_comes_to_print(&world, &holdfast, &["policy.yaml", "route-open.yaml", "not a regular file"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    load.goes_on(100).await?;
    load.stop_expecting(|shot| shot.is_ok() || !shot.passed()).await?;
    get(port, "/closed").answers(401).await?;
    get(port, "/open").reaches("one").await?;
    world.delete("policy.yaml")?;
    get(port, "/closed").comes_to_reach("one").await?;
    Ok(())
}

/// A generator writes one document after another, with a pause after each.
async fn slow_writer_deletes_nothing(world: World) -> Result<()> {
    use std::io::Write;
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let routes = ["closed", "open"].map(|name| http_route(name, &prefix(&format!("/{name}"), "one")));
    let [closed, open] = routes.clone();
    let all = [closed, open, password("p", "closed")];
    let path = world.manifests().join("all.yaml");
    fs::write(&path, documents(&all))?;
    let holdfast = world.run().await?;
    get(port, "/open").comes_to_reach("one").await?;
    get(port, "/closed").comes_to_answer(401).await?;
    let (open, closed) = (Hammer::start([get(port, "/open")]), Hammer::start([get(port, "/closed")]));
    let mut file = fs::File::create(&path)?;
    for document in &all {
        file.write_all(format!("{document}---\n").as_bytes())?;
        tokio::time::sleep(Duration::from_millis(2500)).await;
    }
    drop(file);
    open.goes_on(20).await?;
    open.stop_expecting(Shot::is_ok).await?;
    closed.stop_expecting(|shot| !shot.passed()).await?;
    // An object that is missing in an unchanging file is deleted, and reported until then.
    fs::write(&path, documents(&routes))?;
    status_comes_to_print(&world, &holdfast, &["all.yaml", "lacks 1 object(s)"]).await?;
    get(port, "/closed").comes_to_reach("one").await?;
    Ok(())
}

/// The text of a policy ends before its target: the target is known from the version before, also after a start.
async fn policy_that_is_cut_protects(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    two_routes(&world)?;
    let whole = password("p", "closed");
    world.write("policy.yaml", &whole)?;
    let holdfast = world.run().await?;
    get(port, "/closed").comes_to_answer(401).await?;
    let load = Hammer::start([get(port, "/closed")]);
    for end in ["spec:", "  targetRefs", " [{group", " HTTPRoute"] {
        let cut = whole.split(end).next().unwrap_or_default();
        let close = if end.trim() == "HTTPRoute" { "}]" } else { "" };
        world.write("policy.yaml", format!("{cut}{close}\n"))?;
        status_comes_to_print(&world, &holdfast, &["TrafficPolicy", "default/p"]).await?;
        load.goes_on(100).await?;
        world.write("policy.yaml", &whole)?;
        get(port, "/closed").comes_to_answer(401).await?;
    }
    load.stop_expecting(|shot| !shot.passed()).await?;
    // Users with passwords are not stored without a key, so a different policy is truncated before the start.
    let rest = whole.lines().filter(|line| !line.contains("basicAuth")).collect::<Vec<_>>().join("\n");
    let rules = "  acl: {defaultAction: deny, rules: [{cidrs: [10.0.0.0/8], action: allow}]}";
    world.write("policy.yaml", format!("{rest}\n{rules}\n"))?;
    get(port, "/closed").comes_to_answer(403).await?;
    world.route("later", &prefix("/later", "one"))?;
    get(port, "/later").comes_to_reach("one").await?;
    world.write("policy.yaml", whole.split("spec:").next().unwrap_or_default())?;
    status_comes_to_print(&world, &holdfast, &["TrafficPolicy", "default/p"]).await?;
    let options = holdfast.options.clone();
    holdfast.terminate().await?;
    let _again = world.run_with(options).await?;
    get(port, "/open").comes_to_reach("one").await?;
    ensure!(!get(port, "/closed").send().await?.status.is_success(), "it is open");
    Ok(())
}

async fn list_without_items_deletes_nothing(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let list = |items: &[String]| {
        let items = items.iter().map(|item| format!("- {}", manifests::indent(item, 2).trim_start()));
        let head = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
        items.fold(head, |list, item| format!("{list}{}\n", item.trim_end()))
    };
    let all = [http_route("open", &prefix("/open", "one")), http_route("closed", &prefix("/closed", "one"))];
    world.write("list.yaml", list(&[all.as_slice(), &[password("p", "closed")]].concat()))?;
    let holdfast = world.run().await?;
    get(port, "/open").comes_to_reach("one").await?;
    get(port, "/closed").comes_to_answer(401).await?;
    let load = Hammer::start([get(port, "/open")]);
    world.write("list.yaml", list(&[]))?;
    status_comes_to_print(&world, &holdfast, &["list.yaml", "items"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await?;
    get(port, "/closed").answers(401).await?;
    world.delete("list.yaml")?;
    get(port, "/open").comes_to_answer(404).await?;
    Ok(())
}
