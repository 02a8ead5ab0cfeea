//! Response of an echo server: the request as it arrived, in the field names of the Gateway API conformance suite.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version, header};
use serde::{Deserialize, Serialize};

/// The identity that an echo server reports. All four fields are free text that each response repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoIdentity {
    /// Namespace of the simulated pod.
    #[serde(default)]
    pub namespace: String,
    /// Name of the simulated ingress; empty in all current uses, kept because the conformance suite has it.
    #[serde(default)]
    pub ingress: String,
    /// Name of the Service of the pod.
    #[serde(default)]
    pub service: String,
    /// Name of the simulated pod, which distinguishes two backends of one Service.
    #[serde(default)]
    pub pod: String,
}

/// A request as the echo server received it; the JSON body of its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoAnswer {
    /// Path with query, as received.
    pub path: String,
    /// `:authority` of HTTP/2, else the `Host` header.
    pub host: String,
    /// Request method.
    pub method: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub proto: String,
    /// All headers by canonical name (`X-Header-Set`), with the values in the order of their arrival. Bytes outside of
    /// UTF-8 are replaced.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Number of bytes of the request body.
    #[serde(default)]
    pub body_bytes: u64,
    /// The identity of the server.
    #[serde(flatten)]
    pub identity: EchoIdentity,
}

impl EchoAnswer {
    /// Values of a header, by its name in any case; empty if the request had none.
    pub fn header(&self, name: &str) -> &[String] {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(&[], |(_, values)| values)
    }
}

/// The response to a request with a body of `body_bytes` bytes.
pub(super) fn answer(identity: &EchoIdentity, request: &Parts, body_bytes: u64) -> EchoAnswer {
    EchoAnswer {
        path: request.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        host: host(request),
        method: request.method.to_string(),
        proto: if request.version == Version::HTTP_2 { "HTTP/2.0" } else { "HTTP/1.1" }.to_owned(),
        headers: headers(&request.headers),
        body_bytes,
        identity: identity.clone(),
    }
}

fn host(request: &Parts) -> String {
    let of_header =
        || request.headers.get(header::HOST).map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    request.uri.authority().map(ToString::to_string).or_else(of_header).unwrap_or_default()
}

fn headers(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        named.entry(canonical(name.as_str())).or_default().push(value);
    }
    named
}

/// `x-header-set` as `X-Header-Set`, the form in which the conformance suite compares names.
fn canonical(name: &str) -> String {
    let mut start_of_word = true;
    let letter = |letter: char| {
        let written = if start_of_word { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        start_of_word = letter == '-';
        written
    };
    name.chars().map(letter).collect()
}

/// Reads a body up to `limit` bytes; the rest is not read.
pub(super) async fn read_body<B>(mut body: B, limit: usize) -> Vec<u8>
where
    B: hyper::body::Body<Data = bytes::Bytes> + Unpin,
{
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        let room = limit.saturating_sub(read.len());
        read.extend(data.iter().take(room));
        if room <= data.len() {
            break;
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn header_names_are_written_as_the_conformance_suite_compares_them() {
        assert_eq!(canonical("x-header-set"), "X-Header-Set");
        assert_eq!(canonical("HOST"), "Host");
        assert_eq!(canonical("x--a"), "X--A");
    }
}
