//! Route matching and prefix rewriting: duplicates and forwarded paths.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::matching", true, [prefixes_are_rewritten, the_first_of_two_duplicates_is_served])
}

async fn prefixes_are_rewritten(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let mut routes = "virtualhost: {fqdn: t.example.com}\nroutes:\n".to_owned();
    for (prefix, replacement) in
        [("/ss", "/bar"), ("/sl", "/bar/"), ("/ls/", "/bar"), ("/ll/", "/bar/"), ("/root", "/"), ("/root-long/", "/")]
    {
        routes += &format!(
            "- conditions: [{{prefix: {prefix}}}]\n  pathRewritePolicy: {{replacePrefix: [{{replacement: {replacement}}}]}}\n  services: [{{name: echo, port: 8080}}]\n"
        );
    }
    world.write("table.yaml", proxy("shop", "table", &routes))?;
    for (name, replacement) in [("all", "/bar"), ("all-long", "/bar/")] {
        let spec = format!(
            "virtualhost: {{fqdn: {name}.example.com}}\nroutes:\n- pathRewritePolicy: {{replacePrefix: [{{replacement: {replacement}}}]}}\n  services: [{{name: echo, port: 8080}}]"
        );
        world.write(&format!("{name}.yaml"), proxy("shop", name, &spec))?;
    }
    let served = serve(&world).await?;
    let rows = [
        ("t", "/ss", "/bar"),
        ("t", "/ss/", "/bar/"),
        ("t", "/ss/type?a=b", "/bar/type?a=b"),
        ("t", "/sssball", "/barsball"),
        ("t", "/sl", "/bar"),
        ("t", "/sl/", "/bar/"),
        ("t", "/sl/type", "/bar/type"),
        ("t", "/slsball", "/barsball"),
        ("t", "/ls", "/bar"),
        ("t", "/ls/", "/bar/"),
        ("t", "/ls/type", "/bar/type"),
        ("t", "/ll", "/bar"),
        ("t", "/ll/", "/bar/"),
        ("t", "/ll/type", "/bar/type"),
        ("t", "/root", "/"),
        ("t", "/root/", "/"),
        ("t", "/root/type", "/type"),
        ("t", "/rootsball", "/sball"),
        ("t", "/root-long", "/"),
        ("t", "/root-long/", "/"),
        ("t", "/root-long/type", "/type"),
        ("all", "/", "/bar"),
        ("all", "/x", "/barx"),
        ("all-long", "/", "/bar/"),
        ("all-long", "/x", "/bar/x"),
    ];
    for (host, path, seen) in rows {
        let echo = served.get(&format!("{host}.example.com"), path).comes_to_reach("echo").await?.echo()?;
        ensure!(echo.path == seen, "{host} {path} is {} to the backend instead of {seen}", echo.path);
    }
    // A route that is generated for the path without its slash matches that path only.
    for path in ["/lsball", "/llball"] {
        served.get("t.example.com", path).answers(404).await?;
    }
    Ok(())
}

async fn the_first_of_two_duplicates_is_served(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "s1", None).await?, world.backend_in("shop", "s2", None).await?);
    let root = "virtualhost: {fqdn: example.com}
includes:
- {name: child1, conditions: [{prefix: /foo}]}
- {name: child2, conditions: [{prefix: /foo}]}";
    let child = |service: &str, path: &str| {
        format!(
            "routes:\n- conditions: [{{prefix: {path}}}]\n  services: [{{name: {service}, port: 8080}}]\n- conditions: [{{prefix: /{service}}}]\n  services: [{{name: {service}, port: 8080}}]"
        )
    };
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("child1.yaml", proxy("shop", "child1", &child("s1", "/bar")))?;
    world.write("child2.yaml", proxy("shop", "child2", &child("s2", "/bar")))?;
    let served = serve(&world).await?;
    served.get("example.com", "/foo/bar").comes_to_reach("s1").await?;
    served.get("example.com", "/foo/s2").reaches("s2").await?;
    served.comes_to_be("shop", "child2", "invalid").await?;
    served.comes_to_be("shop", "child1", "valid").await?;
    let status = served.status("shop", "root").await?;
    ensure!(status["currentStatus"] == "valid", "{status}");
    let warning = &status["conditions"][0]["warnings"][0];
    ensure!(warning["reason"] == "DuplicateMatchConditions", "{status}");
    // When the first one gives up the path, the other one is served.
    world.write("child1.yaml", proxy("shop", "child1", &child("s1", "/elsewhere")))?;
    served.get("example.com", "/foo/bar").comes_to_reach("s2").await?;
    served.comes_to_be("shop", "child2", "valid").await
}
