//! An OAuth 2.0 provider: exchanges codes for tokens for a client that has the secret, and serves the keys of the
//! tokens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode};
use serde_json::json;

use super::tokens::TokenMaker;
use super::{RunningServer, lock};

/// The only valid authorization code.
pub const CODE: &str = "good-code";
/// The only known client.
pub const CLIENT: &str = "shop";

/// The form fields of each token request.
type Forms = Arc<Mutex<Vec<BTreeMap<String, String>>>>;

/// An OAuth 2.0 provider.
pub struct LoginServer {
    running: RunningServer,
    forms: Forms,
    secrets: Arc<Mutex<Vec<String>>>,
    /// Signs the tokens.
    pub maker: Arc<TokenMaker>,
}

impl LoginServer {
    /// Starts a provider with this client secret.
    pub async fn start(secret: &str) -> Result<Self> {
        let maker = Arc::new(TokenMaker::start("https://login.example.com").await?);
        let forms = Forms::default();
        let secrets = Arc::new(Mutex::new(vec![secret.to_owned()]));
        let (noted, makes, knows) = (forms.clone(), maker.clone(), secrets.clone());
        let running = super::answering(move |request| {
            let form = form(request.body());
            let is = |name: &str, value: &str| form.get(name).is_some_and(|given| given == value);
            let known = lock(&knows).iter().any(|secret| is("client_secret", secret)) && is("client_id", CLIENT);
            let good = known && is("grant_type", "authorization_code") && is("code", CODE);
            lock(&noted).push(form);
            let tokens = makes.token("shop").ok().zip(makes.token("users").ok()).filter(|_| good);
            let (status, answer) = match tokens {
                Some((access, id)) => {
                    let tokens =
                        json!({"access_token": access, "id_token": id, "token_type": "Bearer", "expires_in": 3600});
                    (StatusCode::OK, tokens)
                }
                None => (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})),
            };
            let response = Response::builder().status(status).header("content-type", "application/json");
            response.body(Full::new(Bytes::from(answer.to_string()))).unwrap_or_default()
        })
        .await?;
        Ok(Self { running, forms, secrets, maker })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Adds a secret that is valid for the client as well.
    pub fn also_knows(&self, secret: &str) {
        lock(&self.secrets).push(secret.to_owned());
    }

    /// The form fields of each token request so far.
    pub fn forms(&self) -> Vec<BTreeMap<String, String>> {
        lock(&self.forms).clone()
    }
}

/// Parses the fields of a form.
fn form(body: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(body).into_owned();
    let fields = text.split('&').filter_map(|field| field.split_once('='));
    fields.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

/// Decodes percent escapes in a text.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
