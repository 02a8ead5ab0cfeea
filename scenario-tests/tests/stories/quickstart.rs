//! The quickstart of the documentation: its manifest, its mistake, its repair, and what the page states about each.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!("quickstart", true, [what_the_page_states])
}

const PAGE: &str = include_str!("../../../docs/quickstart.md");

/// Returns the text between two texts of the page.
fn between<'a>(from: &str, to: &str, nth: usize) -> Result<&'a str> {
    let rest = PAGE.split(from).nth(nth + 1).with_context(|| format!("the page has no {from:?}"))?;
    Ok(rest.split(to).next().unwrap_or_default())
}

/// The edit of the `sed` command with a number: the text that it replaces, and the new text.
fn edit(nth: usize) -> Result<(String, String)> {
    let (old, new) = between("sed -i.bak 's|", "|'", nth)?.split_once('|').context("an edit has two parts")?;
    Ok((old.replace("\\[", "["), new.to_owned()))
}

async fn what_the_page_states(world: World) -> Result<()> {
    let files = world.pod("infra", "files", "files").await?;
    let port = world.port()?;
    let manifest = between("```yaml\n", "```", 0)?
        .replace("port: 8080", &format!("port: {port}"))
        .replace("port: 8081", &format!("port: {}", files.address().port()))
        .replace("[127.0.0.1]", &format!("[{}]", files.address().ip()));
    let write = |text: &str| world.write("quickstart.yaml", text);
    write(&manifest)?;
    let folder = world.manifests().display().to_string();
    let check = async || world.command(&["check", &folder]).await;
    let quoted = between("`holdfast check manifests` ends with `", "`", 0)?;
    check().await?.expect_code(0)?.expect_output(&[quoted])?;
    let options = HoldfastOptions::new(&world)?.args(&BACKFILL);
    let diagnostics = format!("127.0.0.1:{}", options.diagnostics);
    let _holdfast = world.run_with(options).await?;
    let [cart, posts] = [("/cart/1", "shop.example.com"), ("/posts/1", "blog.example.com")]
        .map(|(path, host)| get(port, path).host(host));
    cart.comes_to_reach("files").await?;
    posts.comes_to_reach("files").await?;
    let status = async || world.command(&["status", "--diagnostics", &diagnostics]).await;

    let (old, new) = edit(0)?;
    ensure!(manifest.contains(&old), "the manifest has no {old}");
    let broken = manifest.replace(&old, &new);
    write(&broken)?;
    let found = check().await?;
    for line in between("```text\n", "```", 0)?.lines() {
        // The path of the file is the only part that differs.
        let line = line.strip_prefix("manifests/").unwrap_or(line);
        found.expect_output(&[line])?;
    }
    found.expect_code(1)?;
    until("status names the route", || async {
        let status = status().await?;
        status.expect_code(1)?.expect_output(&["HTTPRoute shop/cart", "invalid regex", "generation 1 is served"])?;
        Ok(())
    })
    .await?;
    cart.reaches("files").await?;
    posts.reaches("files").await?;

    let (old, new) = edit(1)?;
    ensure!(broken.contains(&old), "the broken manifest has no {old}");
    write(&broken.replace(&old, &new))?;
    until("status reports no problem", || async {
        let status = status().await?;
        status.expect_code(0)?.expect_output(&["Everything is served as desired."])?;
        Ok(())
    })
    .await?;
    cart.reaches("files").await?;
    get(port, "/cart/abc").host("shop.example.com").comes_to_answer(404).await?;
    Ok(())
}
