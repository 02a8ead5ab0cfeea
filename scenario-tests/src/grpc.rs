//! A unary gRPC call without a schema: any method of any service, answered by an echo backend.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Uri, Version};
use prost::Message;

use crate::connect::{ClientConnection, ClientTls, HttpVersion};
use crate::echo::{EchoAnswer, GrpcEcho};
use crate::wait::until;

/// A call that can be made any number of times.
#[derive(Clone, Debug)]
pub struct Call {
    port: u16,
    host: String,
    /// `package.Service/Method`.
    method: String,
    headers: Vec<(String, String)>,
    trust: Option<ClientTls>,
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub struct Called {
    /// `grpc-status` of the trailers, or of the head where the response has no body; -1 where it is missing.
    pub status: i32,
    /// HTTP status.
    pub http: u16,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// The message of the echo backend, if one answered.
    pub echo: Option<GrpcEcho>,
}

impl Called {
    /// Name of the backend that answered.
    pub fn pod(&self) -> Result<String> {
        let echo = self.echo.as_ref().with_context(|| format!("no backend answered: {self:?}"))?;
        let answer: EchoAnswer = serde_json::from_str(&echo.answer)?;
        Ok(answer.identity.pod)
    }
}

/// Returns a call of `package.Service/Method` at a loopback port.
pub fn call(port: u16, method: &str) -> Call {
    Call {
        port,
        host: crate::request::HOST_DEFAULT.to_owned(),
        method: method.to_owned(),
        headers: Vec::new(),
        trust: None,
    }
}

impl Call {
    /// Sets `:authority`.
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// Adds a header (metadata).
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses TLS with the given server name and trusted root.
    pub fn tls(mut self, trust: ClientTls) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Makes the call once.
    pub async fn make(&self) -> Result<Called> {
        let mut connection = ClientConnection::open(self.port, HttpVersion::Http2, self.trust.as_ref()).await?;
        let (head, body) = connection.send(self.request()?).await?.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        let status = status.and_then(|status| status.to_str().ok()?.parse().ok()).unwrap_or(-1);
        let bytes = body.to_bytes();
        let echo = bytes.get(5..).and_then(|message| GrpcEcho::decode(message).ok());
        Ok(Called { status, http: head.status.as_u16(), headers: head.headers, echo })
    }

    /// Repeats the call until the backend `pod` answers it with status 0.
    pub async fn comes_to_reach(&self, pod: &str) -> Result<Called> {
        until(&format!("{} reaches {pod}", self.method), || self.reaches(pod)).await
    }

    /// Makes the call once; fails unless the backend `pod` answers it with status 0.
    pub async fn reaches(&self, pod: &str) -> Result<Called> {
        let called = self.make().await?;
        ensure!(called.status == 0, "{}: {called:?}", self.method);
        let answered = called.pod()?;
        ensure!(answered == pod, "{}: {answered} answered instead of {pod}", self.method);
        Ok(called)
    }

    fn request(&self) -> Result<Request<Full<Bytes>>> {
        let scheme = if self.trust.is_some() { "https" } else { "http" };
        let empty_message = Bytes::from_static(&[0, 0, 0, 0, 0]);
        let mut request = Request::new(Full::new(empty_message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::try_from(format!("{scheme}://{}/{}", self.host, self.method))?;
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        for (name, value) in &self.headers {
            headers.append(HeaderName::try_from(name.as_str())?, HeaderValue::try_from(value.as_str())?);
        }
        Ok(request)
    }
}
