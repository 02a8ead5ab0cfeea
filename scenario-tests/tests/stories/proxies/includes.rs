//! Includes: across namespaces, and a broken child beside a valid one.

use anyhow::Result;
use holdfast_scenario_tests::{Hammer, Story, World, stories};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::includes", true, [includes_across_namespaces, a_broken_child_beside_a_good_one])
}

async fn includes_across_namespaces(world: World) -> Result<()> {
    let _shop = world.backend_in("shop", "front", None).await?;
    let _blog = world.backend_in("blog", "posts", None).await?;
    let root = "virtualhost: {fqdn: www.example.com}
includes:
- {name: posts, namespace: blog, conditions: [{prefix: /blog}]}
- {name: posts, namespace: blog, conditions: [{prefix: /news}, {header: {name: x-beta, present: true}}]}
- {name: nobody, namespace: blog, conditions: [{prefix: /gone}]}
routes:
- services: [{name: front, port: 8080}]";
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("posts.yaml", proxy("blog", "posts", "routes:\n- services: [{name: posts, port: 8080}]"))?;
    let served = serve(&world).await?;
    served.get("www.example.com", "/").comes_to_reach("front").await?;
    served.get("www.example.com", "/blog/1").comes_to_reach("posts").await?;
    served.get("www.example.com", "/news/1").reaches("front").await?;
    served.get("www.example.com", "/news/1").header("x-beta", "").reaches("posts").await?;
    served.get("www.example.com", "/gone/1").answers(502).await?;
    served.get("other.example.com", "/").answers(404).await?;
    // The missing child is created later, and nothing else is affected.
    let hammer = Hammer::start([served.get("www.example.com", "/blog/1"), served.get("www.example.com", "/")]);
    world.write("nobody.yaml", proxy("blog", "nobody", "routes:\n- directResponsePolicy: {statusCode: 204}"))?;
    served.get("www.example.com", "/gone/1").comes_to_answer(204).await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    served.comes_to_be("shop", "root", "valid").await
}

async fn a_broken_child_beside_a_good_one(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let root = "virtualhost: {fqdn: example.com}
includes:
- {name: good, conditions: [{prefix: /good}]}
- {name: bad, conditions: [{prefix: /bad}]}
routes:
- services: [{name: echo, port: 8080}]";
    let fine = "routes:\n- services: [{name: echo, port: 8080}]";
    world.write("root.yaml", proxy("shop", "root", root))?;
    world.write("good.yaml", proxy("shop", "good", fine))?;
    world.write("bad.yaml", proxy("shop", "bad", fine))?;
    let served = serve(&world).await?;
    served.get("example.com", "/bad/x").comes_to_reach("echo").await?;
    let hammer = Hammer::start([served.get("example.com", "/good/x"), served.get("example.com", "/other")]);
    let bad = "routes:
- services: [{name: nobody, port: 8080}]
- conditions: [{regex: '/[regex'}]
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /timeout}]
  timeoutPolicy: {response: soon}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /fine}]
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /token}]
  jwtVerificationPolicy: {require: nobody}
  services: [{name: echo, port: 8080}]";
    world.write("bad.yaml", proxy("shop", "bad", bad))?;
    // While it is tried, the whole child may be closed (503), because its content now requires a token.
    served.get("example.com", "/bad/timeout/x").comes_to_answer(404).await?;
    served.get("example.com", "/bad/x").answers(503).await?;
    served.get("example.com", "/bad/token").answers(404).await?;
    served.get("example.com", "/bad/fine").reaches("echo").await?;
    served.comes_to_be("shop", "bad", "invalid").await?;
    served.comes_to_be("shop", "root", "valid").await?;
    world.write("bad.yaml", proxy("shop", "bad", fine))?;
    served.get("example.com", "/bad/x").comes_to_reach("echo").await?;
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}
