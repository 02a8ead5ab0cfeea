//! Redirects and rewrites: the location that clients receive, and the path that backends receive.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "rewrites",
        true,
        [redirect_status_and_host, redirect_scheme_and_port, redirect_paths, rewrite_host, rewrite_paths]
    )
}

/// Returns a rule that matches a path prefix and has one filter.
fn rule(prefix: &str, filter: &str, backend: Option<&str>) -> String {
    let backend = backend.map(|name| format!("\n  backendRefs: [{{name: {name}, port: 8080}}]")).unwrap_or_default();
    format!("- matches: [{{path: {{type: PathPrefix, value: {prefix}}}}}]\n  filters: [{filter}]{backend}\n")
}

fn redirect(prefix: &str, fields: &str) -> String {
    rule(prefix, &format!("{{type: RequestRedirect, requestRedirect: {{{fields}}}}}"), None)
}

fn rewrite(prefix: &str, fields: &str) -> String {
    rule(prefix, &format!("{{type: URLRewrite, urlRewrite: {{{fields}}}}}"), Some("echo"))
}

/// Removes the default port of the scheme from an address. Envoy keeps the port of the request's `Host` if the redirect
/// has none, so Holdfast sets the port if the listener has another one; both are equivalent.
fn without_own_port(location: &str) -> String {
    let (own, rest) = match location.split_once("://") {
        Some(("http", rest)) => (":80", rest),
        Some(("https", rest)) => (":443", rest),
        _ => return location.to_owned(),
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
    let scheme = location.len() - rest.len();
    format!("{}{}{path}", location.get(..scheme).unwrap_or_default(), host.strip_suffix(own).unwrap_or(host))
}

async fn redirects_to(request: HttpRequest, status: u16, location: &str) -> Result<()> {
    let reply = request.comes_to_answer(status).await?;
    let actual = without_own_port(&reply.header("location"));
    ensure!(actual == location, "{} is redirected to {actual} instead of {location}", request.line());
    Ok(())
}

async fn redirect_status_and_host(world: World) -> Result<()> {
    let port = world.gateway()?;
    let mut rules = "rules:\n".to_owned();
    rules += &redirect("/host", "hostname: example.org");
    for status in [301, 302, 303, 307, 308] {
        rules += &redirect(&format!("/{status}"), &format!("hostname: example.org, port: 80, statusCode: {status}"));
    }
    world.route("redirects", &rules)?;
    let _holdfast = world.run().await?;
    // Without a port and a scheme in the filter, the location has the listener's port.
    redirects_to(get(port, "/host"), 302, &format!("http://example.org:{port}/host")).await?;
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/{status}/more?a=b");
        redirects_to(get(port, &path), status, &format!("http://example.org{path}")).await?;
    }
    Ok(())
}

/// The location never has the default port of its scheme; a scheme without a port uses the default.
async fn redirect_scheme_and_port(world: World) -> Result<()> {
    let port = world.gateway()?;
    let rules = [
        redirect("/https", "scheme: https"),
        redirect("/https-host", "scheme: https, hostname: example.org"),
        redirect("/https-443", "scheme: https, port: 443"),
        redirect("/https-8443", "scheme: https, port: 8443"),
        redirect("/http", "scheme: http"),
        redirect("/http-80", "scheme: http, port: 80"),
        redirect("/port", "port: 8083"),
        redirect("/port-80", "port: 80"),
        redirect("/nothing", "statusCode: 301"),
    ];
    world.route("redirects", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    for (path, location) in [
        ("/https", "https://example.com/https"),
        ("/https-host", "https://example.org/https-host"),
        ("/https-443", "https://example.com/https-443"),
        ("/https-8443", "https://example.com:8443/https-8443"),
        ("/http", "http://example.com/http"),
        ("/http-80", "http://example.com/http-80"),
        ("/port", "http://example.com:8083/port"),
        ("/port-80", "http://example.com/port-80"),
    ] {
        redirects_to(get(port, path).host("example.com"), 302, location).await?;
    }
    let strict = get(port, "/https-host").answers(302).await?.header("location");
    ensure!(strict == "https://example.org/https-host", "{strict}");
    redirects_to(get(port, "/nothing"), 301, &format!("http://example.com:{port}/nothing")).await
}

async fn redirect_paths(world: World) -> Result<()> {
    let port = world.gateway()?;
    let prefix = |path: &str| format!("port: 80, path: {{type: ReplacePrefixMatch, replacePrefixMatch: {path}}}");
    let full = |path: &str| format!("port: 80, path: {{type: ReplaceFullPath, replaceFullPath: {path}}}");
    let rules = [
        redirect("/prefix", &prefix("/new")),
        redirect("/to-root", &prefix("/")),
        redirect("/full", &full("/all/new")),
        redirect("/full-host", &format!("hostname: example.org, {}", full("/else"))),
    ];
    world.route("redirects", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    for (path, location) in [
        ("/prefix", "http://example.com/new"),
        ("/prefix/lemon", "http://example.com/new/lemon"),
        ("/prefix/lemon?a=b", "http://example.com/new/lemon?a=b"),
        ("/to-root/one", "http://example.com/one"),
        ("/to-root/", "http://example.com/"),
        ("/to-root", "http://example.com/"),
        ("/full/x", "http://example.com/all/new"),
        ("/full-host/x", "http://example.org/else"),
    ] {
        redirects_to(get(port, path).host("example.com"), 302, location).await?;
    }
    Ok(())
}

async fn sees(request: HttpRequest, host: &str, path: &str) -> Result<()> {
    let seen = request.comes_to_reach("echo").await?.echo()?;
    ensure!(seen.host == host && seen.path == path, "{}: the backend saw {} {}", request.line(), seen.host, seen.path);
    Ok(())
}

async fn rewrite_host(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let rules = [
        rewrite("/one", "hostname: one.example.org"),
        rewrite("/plain", "path: {type: ReplaceFullPath, replaceFullPath: /x}"),
    ];
    world.route("rewrites", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    sees(get(port, "/one/two?a=b").host("a.example"), "one.example.org", "/one/two?a=b").await?;
    sees(get(port, "/plain").host("a.example"), "a.example", "/x").await
}

async fn rewrite_paths(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let prefix = |path: &str| format!("path: {{type: ReplacePrefixMatch, replacePrefixMatch: {path}}}");
    let rules = [
        rewrite("/prefix/one", &prefix("/one")),
        rewrite("/to-root", &prefix("/")),
        rewrite("/slash", &prefix("/new/")),
        rewrite("/", &prefix("/added")),
        rewrite("/full", "path: {type: ReplaceFullPath, replaceFullPath: /all/new}"),
        rewrite("/both", &format!("hostname: b.example, {}", prefix("/with-host"))),
    ];
    world.route("rewrites", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    for (path, seen) in [
        ("/prefix/one", "/one"),
        ("/prefix/one/two", "/one/two"),
        ("/prefix/one/two?a=/b//c", "/one/two?a=/b//c"),
        ("/to-root/one", "/one"),
        ("/to-root/", "/"),
        ("/to-root", "/"),
        ("/to-root?a=b", "/?a=b"),
        ("/prefix/one/", "/one/"),
        ("/slash/one", "/new/one"),
        ("/other", "/added/other"),
        ("/full/x?a=b", "/all/new?a=b"),
    ] {
        sees(get(port, path).host("a.example"), "a.example", seen).await?;
    }
    sees(get(port, "/both/two").host("a.example"), "b.example", "/with-host/two").await
}
