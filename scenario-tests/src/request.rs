//! HTTP request builder and response checks, as stories write them:
//! `request(port).path("/one").host("a.example").comes_to_reach("pod")`.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri, Version};

use crate::connect::{ClientConnection, ClientTls, HttpVersion};
use crate::echo::EchoAnswer;
use crate::tls::Certificate;
use crate::wait::until;

/// The default host of a request.
pub const HOST_DEFAULT: &str = "example.com";

/// A request that can be sent any number of times, each time on a new connection.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    port: u16,
    method: Method,
    path: String,
    host: String,
    headers: Vec<(String, String)>,
    protocol: HttpVersion,
    trust: Option<ClientTls>,
    body: Bytes,
    from: Ipv4Addr,
}

/// A response with its complete body.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, decoded as UTF-8.
    pub body: String,
}

/// Returns a GET of `/` at a loopback port.
pub fn request(port: u16) -> HttpRequest {
    HttpRequest {
        port,
        method: Method::GET,
        path: "/".to_owned(),
        host: HOST_DEFAULT.to_owned(),
        headers: Vec::new(),
        protocol: HttpVersion::Http1,
        trust: None,
        body: Bytes::new(),
        from: Ipv4Addr::LOCALHOST,
    }
}

/// Returns a GET of a path at a loopback port.
pub fn get(port: u16, path: &str) -> HttpRequest {
    request(port).path(path)
}

impl HttpRequest {
    /// Sets the path and query, sent as written.
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Sets `Host` or `:authority`.
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// Sets the method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Uses HTTP/2 instead of HTTP/1.1.
    pub fn http2(mut self) -> Self {
        self.protocol = HttpVersion::Http2;
        self
    }

    /// Uses TLS with the given server name and trusted root.
    pub fn tls(mut self, trust: ClientTls) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Connects from another loopback address.
    pub fn coming_from(mut self, address: Ipv4Addr) -> Self {
        self.from = address;
        self
    }

    /// Presents a client certificate; effective only with TLS.
    pub fn showing(mut self, certificate: &Certificate) -> Self {
        self.trust = self.trust.map(|trust| trust.showing(certificate));
        self
    }

    /// Opens the connection that this request is sent on.
    pub async fn connect(&self) -> Result<ClientConnection> {
        ClientConnection::open_from(self.from, self.port, self.protocol, self.trust.as_ref()).await
    }

    /// Sends the request once, on a new connection.
    pub async fn send(&self) -> Result<Reply> {
        self.send_on(&mut self.connect().await?).await
    }

    /// Sends the request once, on an open connection.
    pub async fn send_on(&self, connection: &mut ClientConnection) -> Result<Reply> {
        let response = connection.send(self.to_hyper()?).await.with_context(|| self.line())?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.with_context(|| self.line())?.to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    /// Sends the request once; fails unless the backend `pod` answers.
    pub async fn reaches(&self, pod: &str) -> Result<Reply> {
        let reply = self.send().await?;
        reply.from_pod(pod).with_context(|| self.line())?;
        Ok(reply)
    }

    /// Repeats the request until the backend `pod` answers.
    pub async fn comes_to_reach(&self, pod: &str) -> Result<Reply> {
        until(&format!("{} reaches {pod}", self.line()), || self.reaches(pod)).await
    }

    /// Sends the request once; fails unless the response has this status.
    pub async fn answers(&self, status: u16) -> Result<Reply> {
        let reply = self.send().await?;
        ensure!(
            reply.status.as_u16() == status,
            "{}: {} instead of {status}: {}",
            self.line(),
            reply.status,
            reply.body
        );
        Ok(reply)
    }

    /// Repeats the request until the response has this status.
    pub async fn comes_to_answer(&self, status: u16) -> Result<Reply> {
        until(&format!("{} answers {status}", self.line()), || self.answers(status)).await
    }

    /// Repeats the request until the response satisfies `wanted`.
    pub async fn comes_to(&self, what: &str, wanted: impl Fn(&Reply) -> bool) -> Result<Reply> {
        let wanted = &wanted;
        let once = || async move {
            let reply = self.send().await?;
            ensure!(wanted(&reply), "the answer was {reply:?}");
            Ok(reply)
        };
        until(&format!("{}: {what}", self.line()), once).await
    }

    /// Method, host and path, for messages.
    pub fn line(&self) -> String {
        let scheme = if self.trust.is_some() { "https" } else { "http" };
        format!("{} {scheme}://{}{} at port {}", self.method, self.host, self.path, self.port)
    }

    fn to_hyper(&self) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        if self.protocol == HttpVersion::Http2 {
            let scheme = if self.trust.is_some() { "https" } else { "http" };
            *request.uri_mut() = Uri::try_from(format!("{scheme}://{}{}", self.host, self.path))?;
            *request.version_mut() = Version::HTTP_2;
        } else {
            *request.uri_mut() = Uri::try_from(self.path.as_str())?;
            request.headers_mut().insert(HOST, HeaderValue::try_from(self.host.as_str())?);
        }
        for (name, value) in &self.headers {
            request.headers_mut().append(HeaderName::try_from(name.as_str())?, HeaderValue::try_from(value.as_str())?);
        }
        Ok(request)
    }
}

impl Reply {
    /// The request as the echo backend received it.
    pub fn echo(&self) -> Result<EchoAnswer> {
        ensure!(self.status.is_success(), "{} is no answer of a backend: {}", self.status, self.body);
        serde_json::from_str(&self.body).with_context(|| format!("no echo: {}", self.body))
    }

    /// Name of the backend that answered.
    pub fn pod(&self) -> Result<String> {
        Ok(self.echo()?.identity.pod)
    }

    /// Fails unless the backend `pod` answered.
    pub fn from_pod(&self, pod: &str) -> Result<()> {
        let answered = self.pod()?;
        if answered != pod {
            bail!("{answered} answered instead of {pod}");
        }
        Ok(())
    }

    /// Returns a header as text; empty where the header is missing.
    pub fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        value.unwrap_or_default()
    }

    /// Returns all values of a header.
    pub fn header_values(&self, name: &str) -> Vec<String> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.headers.get_all(name).iter().map(text).collect()
    }
}
