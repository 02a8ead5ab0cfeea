//! The request to explain, from method, URL and headers.

use std::net::IpAddr;

/// A request, as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    /// Method.
    pub method: String,
    /// Whether the connection has TLS.
    pub tls: bool,
    /// Port of the connection.
    pub port: u16,
    /// Server name of the TLS handshake: the host of the URL without its final dot, unless it is an address.
    pub server_name: Option<String>,
    /// `Host` or `:authority`.
    pub authority: String,
    /// Path with query.
    pub path: String,
    /// Headers with names in lower case, in order, without `Host`.
    pub headers: Vec<(String, String)>,
}

impl ExplainRequest {
    /// Returns the host that selects a filter chain: the server name, or the host of the authority.
    pub fn chain_host(&self) -> &str {
        self.server_name.as_deref().unwrap_or_else(|| split_port(&self.authority).0)
    }

    /// Reads a request. A header `Host` replaces the host of the URL, but not the server name.
    ///
    /// # Errors
    /// Returns a sentence about the part that cannot be used.
    pub fn read(method: &str, url: &str, headers: &[(String, String)]) -> Result<Self, String> {
        // Methods and names of headers are tokens (RFC 9110).
        if holdfast_check::header::name(method).is_err() {
            return Err(format!("the method {method:?} is not a token: letters, digits and any of !#$%&'*+-.^_`|~"));
        }
        if method == "CONNECT" {
            return Err("the method CONNECT has no path and is not explained".into());
        }
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(format!("the URL {url:?} must begin with http:// or https://")),
        };
        if let Some(odd) = rest.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!("the URL {url:?} has the character {odd:?}, which must be percent-encoded"));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A client does not send the fragment.
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split_port(authority);
        // Brackets only around an IPv6 address.
        let is_bracketed = !host.contains(['[', ']']) || (host.starts_with('[') && is_address(host));
        if host.is_empty() || host.contains(['@', ',']) || !is_bracketed {
            return Err(format!("the URL {url:?} has no usable host: write http://HOST[:PORT]/PATH"));
        }
        let port = match port.filter(|port| !port.is_empty()) {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().map_err(|_| format!("the URL {url:?} has no usable port: {port:?}"))?,
        };
        let mut request = Self {
            method: method.to_owned(),
            tls,
            port,
            server_name: (tls && !is_address(host)).then(|| server_name(host)),
            authority: authority.to_owned(),
            path,
            headers: Vec::new(),
        };
        for (name, value) in headers {
            request.add(name, value)?;
        }
        Ok(request)
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name = holdfast_check::header::name(name).map_err(|fault| fault.to_string())?;
        if value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(format!("the value of the header {name} has a control character"));
        }
        match &*name {
            "host" => self.authority = value.to_owned(),
            _ => self.headers.push((name, value.to_owned())),
        }
        Ok(())
    }
}

/// Returns host and port of an authority. The brackets of an IPv6 address belong to the host.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Returns the server name that a client sends for a host: without the final dot (RFC 6066).
fn server_name(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inside.unwrap_or(host).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_port_a_server_name_and_a_path() {
        let read = |url| ExplainRequest::read("GET", url, &[]).unwrap();
        let plain = read("http://a.example");
        assert_eq!((plain.port, plain.server_name, &*plain.path), (80, None, "/"));
        let secure = read("https://A.example:8443/x?y=1#z");
        assert_eq!((secure.port, secure.server_name.as_deref(), &*secure.path), (8443, Some("a.example"), "/x?y=1"));
        assert_eq!(secure.authority, "A.example:8443");
        let dotted = read("https://a.example./");
        assert_eq!((dotted.server_name.as_deref(), &*dotted.authority), (Some("a.example"), "a.example."));
        let address = read("https://[::1]:1/?q");
        assert_eq!((address.port, address.server_name, &*address.path), (1, None, "/?q"));
        assert_eq!(read("http://[::1]/").port, 80);
    }

    #[test]
    fn the_header_host_replaces_the_host_only() {
        let headers = [("Host".to_owned(), "b.example".to_owned()), ("X-A".to_owned(), "1".to_owned())];
        let request = ExplainRequest::read("GET", "https://a.example/", &headers).unwrap();
        assert_eq!((&*request.authority, request.server_name.as_deref()), ("b.example", Some("a.example")));
        assert_eq!(request.headers, [("x-a".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn unusable_parts_are_refused_with_a_sentence() {
        let cases = [
            ("GET", "a.example/x", "must begin with http"),
            ("GET", "ftp://a.example/", "must begin with http"),
            ("GET", "http:///x", "no usable host"),
            ("GET", "http://a.example:x/", "no usable port"),
            ("GET", "http://a.example/a b", "percent-encoded"),
            ("CONNECT", "http://a.example/", "CONNECT"),
            ("G T", "http://a.example/", "method"),
            ("", "http://a.example/", "method"),
        ];
        for (method, url, expected) in cases {
            let error = ExplainRequest::read(method, url, &[]).unwrap_err();
            assert!(error.contains(expected), "{method} {url}: {error}");
        }
        for (name, value, is_usable) in [("a b", "1", false), ("a", "1\n2", false), ("a", "", true)] {
            let headers = [(name.to_owned(), value.to_owned())];
            assert_eq!(
                ExplainRequest::read("GET", "http://a.example/", &headers).is_ok(),
                is_usable,
                "{name}: {value}"
            );
        }
    }
}
