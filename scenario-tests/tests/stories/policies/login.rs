//! OAuth 2.0 login: users are redirected, return with a code, and are identified by cookies; no other client is
//! allowed, whatever is broken.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::manifests::{documents, service};
use holdfast_scenario_tests::request::{Reply, request};
use holdfast_scenario_tests::services::login::{CLIENT, CODE, LoginServer, decoded};
use holdfast_scenario_tests::{Hammer, HttpRequest, Story, World, stories};

use super::enforced::{LEVELS, ROUTE, policy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::login",
        true,
        [logged_in_and_out, forged_cookies, tokens_are_verified, closed_and_healed, a_new_secret_ends_sessions]
    )
}

const SECRET: &str = "s3cret of the shop";
const POLICY: &str = "oauth2: {extensionRef: {name: login}}";
const GOOD: &str = "scopes: [openid, email], endSessionEndpoint: \"https://login.example.com/end\", \
                    denyRedirect: {headers: [{name: x-requested-with, value: XMLHttpRequest}]}";
const JWT: &str = "jwt: {jwksURI: \"https://login.example.com/keys\", jwksBackendRef: {name: keys, port: 8080}, ";

/// Writes the extension and the objects that it refers to; `rest` has its further fields.
fn write(world: &World, server: &LoginServer, secret: &str, rest: &str) -> Result<()> {
    let extension = format!(
        "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayExtension, metadata: {{name: login, namespace: default}}, \
         spec: {{oauth2: {{backendRef: {{name: login, port: 8080}}, authorizationEndpoint: \"https://login.example.com/authorize\", \
         tokenEndpoint: \"https://login.example.com/token\", credentials: {{clientID: {CLIENT}, clientSecretRef: {{name: client}}}}, {rest}}}}}}}"
    );
    let client = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: client, namespace: default}}, stringData: {{client-secret: {secret:?}}}}}"
    );
    let services = [("login", server.address()), ("keys", server.maker.address())];
    let services = services.map(|(name, address)| service("default", name, None, &[address]));
    world.write("login.yaml", documents(&[services.to_vec(), vec![extension]].concat()))?;
    world.write("client.yaml", client)
}

/// A browser that stores cookies.
#[derive(Clone, Default)]
pub(super) struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn take(&mut self, reply: &Reply) {
        for cookie in reply.header_values("set-cookie") {
            let Some((name, value)) = cookie.split(';').next().and_then(|first| first.split_once('=')) else {
                continue;
            };
            if value == "deleted" {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn with_cookies(&self, request: HttpRequest) -> HttpRequest {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if cookies.is_empty() { request } else { request.header("cookie", &cookies.join("; ")) }
    }

    /// Requests a page, follows the redirect for the login, and returns with a code.
    pub(super) async fn logs_in(&mut self, place: HttpRequest, code: &str) -> Result<Reply> {
        let sent = place.comes_to_answer(302).await?;
        self.take(&sent);
        let location = sent.header("location");
        let state = location.split("state=").nth(1).context("no state")?;
        let state = state.split('&').next().unwrap_or_default();
        let back = place.path(&format!("/oauth2/redirect?code={code}&state={state}"));
        let reply = self.with_cookies(back).send().await?;
        self.take(&reply);
        Ok(reply)
    }
}

/// Starts the provider, and writes the route, the policy and the objects that they need.
async fn begun(world: &World, rest: &str) -> Result<(LoginServer, u16)> {
    let server = LoginServer::start(SECRET).await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    write(world, &server, SECRET, rest)?;
    world.write("policy.yaml", policy("p", LEVELS[1].0, POLICY))?;
    Ok((server, port))
}

async fn logged_in_and_out(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (server, port) = begun(&world, GOOD).await?;
    let _holdfast = world.run().await?;
    let mut user = Browser::default();
    let place = request(port).path("/cart?item=1");
    let sent = place.comes_to_answer(302).await?;
    let location = sent.header("location");
    let expected =
        ["https://login.example.com/authorize?", "client_id=shop", "scope=openid%20email", "response_type=code"];
    for part in expected {
        ensure!(location.contains(part), "{part} is not in {location}");
    }
    let back = user.logs_in(place.clone(), CODE).await?;
    ensure!(back.status == 302 && back.header("location") == "http://example.com/cart?item=1", "{back:?}");
    ensure!(back.header_values("set-cookie").iter().any(|cookie| cookie.contains("SameSite=Lax")), "{back:?}");
    let form = server.forms().pop().context("it was not asked for tokens")?;
    let is = |name: &str, value: &str| form.get(name).is_some_and(|given| given == value);
    ensure!(is("client_secret", SECRET) && is("redirect_uri", "http://example.com/oauth2/redirect"), "{form:?}");
    user.with_cookies(place.clone()).reaches("echo").await?;
    // Requests of scripts receive a status instead of a redirect.
    place.clone().header("x-requested-with", "XMLHttpRequest").answers(401).await?;
    let out = user.with_cookies(request(port).path("/logout")).answers(302).await?;
    let end = decoded(&out.header("location"));
    ensure!(end.starts_with("https://login.example.com/end?"), "{end}");
    user.take(&out);
    user.with_cookies(place).answers(302).await.map(drop)
}

async fn forged_cookies(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (server, port) = begun(&world, GOOD).await?;
    let _holdfast = world.run().await?;
    let mut user = Browser::default();
    let place = request(port).path("/cart");
    let hammer = Hammer::start([place.clone()]);
    ensure!(user.logs_in(place.clone(), "another-code").await?.status == 401, "a code that is none was taken");
    ensure!(!user.cookies.contains_key("OauthHMAC"), "cookies for a code that is none: {:?}", user.cookies.keys());
    user.with_cookies(place.clone()).answers(302).await?;
    user.logs_in(place.clone(), CODE).await?;
    user.with_cookies(place.clone()).reaches("echo").await?;
    // Cookies at another host, with a changed or missing part, and a token without cookies.
    user.with_cookies(place.clone().host("other.example.com")).answers(302).await?;
    for name in ["OauthHMAC", "OauthExpires", "BearerToken"] {
        let mut forger = user.clone();
        let value = forger.cookies.remove(name).with_context(|| format!("no cookie {name}"))?;
        forger.with_cookies(place.clone()).answers(302).await?;
        let forged = if name == "OauthExpires" { "4102444800".to_owned() } else { format!("A{value}") };
        forger.cookies.insert(name.to_owned(), forged);
        forger.with_cookies(place.clone()).answers(302).await?;
    }
    place.clone().header("authorization", &server.maker.bearer("shop")?).answers(302).await?;
    // A state that was issued for another browser is not accepted.
    let sent = place.answers(302).await?.header("location");
    let state = sent.split("state=").nth(1).unwrap_or_default().to_owned();
    request(port).path(&format!("/oauth2/redirect?code={CODE}&state={state}")).answers(401).await?;
    hammer.stop_expecting(|shot| !shot.is_ok()).await.map(drop)
}

async fn tokens_are_verified(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let fine = format!(
        "{JWT} accessToken: {{audiences: [shop], claimsToHeaders: [{{name: sub, header: x-sub}}]}}, idToken: {{audiences: [users]}}}}"
    );
    let (server, port) = begun(&world, &fine).await?;
    let _holdfast = world.run().await?;
    let mut user = Browser::default();
    let place = request(port).path("/cart");
    user.logs_in(place.clone(), CODE).await?;
    let reply = user.with_cookies(place.clone()).reaches("echo").await?;
    ensure!(reply.echo()?.header("x-sub") == ["alice"], "the claim is not told: {reply:?}");
    // A token for another audience is denied, although the user is logged in.
    let other = format!("{JWT} accessToken: {{audiences: [shop]}}, idToken: {{audiences: [bank]}}}}");
    write(&world, &server, SECRET, &other)?;
    user.with_cookies(place.clone()).comes_to_answer(403).await?;
    write(&world, &server, SECRET, &fine)?;
    user.with_cookies(place).comes_to_reach("echo").await.map(drop)
}

/// Specs that cannot be served or parsed.
const BROKEN: [&str; 3] =
    ["logoutPath: bye", "scopes: openid", "endSessionEndpoint: \"https://login.example.com/end\""];

async fn closed_and_healed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (server, port) = begun(&world, GOOD).await?;
    let holdfast = world.run().await?;
    let mut user = Browser::default();
    let place = request(port).path("/cart");
    user.logs_in(place.clone(), CODE).await?;
    let passing = user.with_cookies(place.clone());
    passing.reaches("echo").await?;
    let hammers = [Hammer::start([place.clone()]), Hammer::start_kept([place.clone()])];
    for (target, closed) in LEVELS {
        world.write("policy.yaml", policy("p", target, POLICY))?;
        passing.comes_to_reach("echo").await?;
        place.comes_to_answer(302).await?;
        for broken in BROKEN {
            write(&world, &server, SECRET, broken)?;
            passing.comes_to_answer(closed).await?;
            write(&world, &server, SECRET, GOOD)?;
            passing.comes_to_reach("echo").await?;
        }
        for missing in ["client.yaml", "login.yaml"] {
            world.delete(missing)?;
            passing.comes_to("nobody passes", |reply| reply.pod().is_err()).await?;
            place.comes_to("nobody is sent anywhere", |reply| reply.status != 302).await?;
            write(&world, &server, SECRET, GOOD)?;
            passing.comes_to_reach("echo").await?;
        }
    }
    // Sessions survive a restart, because the key of the cookies is derived from data that is still available.
    let options = holdfast.kill()?;
    let _holdfast = world.run_with(options).await?;
    passing.comes_to_reach("echo").await?;
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

async fn a_new_secret_ends_sessions(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (server, port) = begun(&world, GOOD).await?;
    let _holdfast = world.run().await?;
    let mut user = Browser::default();
    let place = request(port).path("/cart");
    user.logs_in(place.clone(), CODE).await?;
    user.with_cookies(place.clone()).reaches("echo").await?;
    server.also_knows("another one");
    write(&world, &server, "another one", GOOD)?;
    user.with_cookies(place.clone()).comes_to_answer(302).await?;
    user.logs_in(place.clone(), CODE).await?;
    ensure!(server.forms().pop().is_some_and(|form| form.get("client_secret").is_some_and(|it| it == "another one")));
    user.with_cookies(place).reaches("echo").await.map(drop)
}
