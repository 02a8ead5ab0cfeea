//! Rewriting of cookies that backends set.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::cookies", true, [cookies_are_rewritten])
}

async fn cookies_are_rewritten(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let spec = r#"virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /all}]
  cookieRewritePolicies:
  - {name: session, pathRewrite: {value: /shop}, domainRewrite: {value: example.com}, secure: true, sameSite: Strict}
  - {name: open, secure: false}
  - {name: strange, pathRewrite: {value: '/"]] .. os.getenv("HOME") --%s%1'}}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /service}]
  cookieRewritePolicies: [{name: session, pathRewrite: {value: /shop}, sameSite: None}]
  services: [{name: echo, port: 8080, cookieRewritePolicies: [{name: session, sameSite: Lax}]}]
- services: [{name: echo, port: 8080}]"#;
    world.write("proxy.yaml", proxy("shop", "proxy", spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/").comes_to_reach("echo").await?;
    served.comes_to_be("shop", "proxy", "valid").await?;
    let rows = [
        ("/all", "session=1", "session=1; Path=/shop; Domain=example.com; Secure; SameSite=Strict"),
        (
            "/all",
            "session=a=b; path=/x; HttpOnly; domain=x.example.com; samesite=lax; Max-Age=3",
            "session=a=b; HttpOnly; Max-Age=3; Path=/shop; Domain=example.com; Secure; SameSite=Strict",
        ),
        ("/all", "open=1; Secure; Path=/", "open=1; Path=/"),
        ("/all", "strange=1; Path=/old", r#"strange=1; Path=/"]] .. os.getenv("HOME") --%s%1"#),
        ("/all", "other=session=1; Path=/", "other=session=1; Path=/"),
        ("/all", "sessions=1; Path=/", "sessions=1; Path=/"),
        ("/service", "session=1; Path=/; SameSite=Strict", "session=1; Path=/shop; SameSite=Lax"),
        ("/", "session=1; Path=/; Secure", "session=1; Path=/; Secure"),
    ];
    for (path, set, seen) in rows {
        let request = served.get("example.com", path).header("x-echo-set-header", &format!("set-cookie:{set}"));
        let cookie = request.reaches("echo").await?.header("set-cookie");
        ensure!(cookie == seen, "{path}: {set} becomes {cookie}, not {seen}");
    }
    // Several cookies, in their order, including some without a rule.
    let several = "set-cookie:a=1; Path=/,set-cookie:session=2; Path=/,set-cookie:open=3; Secure,set-cookie:session=4";
    let reply = served.get("example.com", "/all").header("x-echo-set-header", several).reaches("echo").await?;
    let cookies = reply.header_values("set-cookie");
    let rest = "Path=/shop; Domain=example.com; Secure; SameSite=Strict";
    let wanted =
        ["a=1; Path=/".to_owned(), format!("session=2; {rest}"), "open=3".into(), format!("session=4; {rest}")];
    ensure!(cookies == wanted, "{cookies:?}");
    Ok(())
}
