//! Responses to requests that the access list by client address denies.
//!
//! Envoy's RBAC filter has one response, 403. The script rewrites that response, where the filter reports that it
//! denied the request; only the filter decides about access. Envoy's own extension for it (`custom_response`) is
//! outside of Envoy's threat model, so this is a Lua script: one fixed text, which receives the settings of the route
//! as data. The script is part of the per-route settings, since a filter that holds a script has a Lua state of its own
//! in each worker thread of an Envoy, and each chain has such a filter.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::lua_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::{Lua, LuaPerRoute};
use envoy_types::pb::google::protobuf::Struct;

use super::Flaw;
use super::cookies::{list, text};

/// Maximum number of headers in one response.
pub const HEADERS_MAX: usize = 16;
/// Prefix of the RBAC filter's metadata, by which the script finds its results.
pub const PREFIX: &str = "acl_";
/// Key of the settings in the script's context.
const NAME: &str = "deny";
const SCRIPT: &str = include_str!("deny_response.lua");
/// The default status.
const FORBIDDEN: u16 = 403;
/// Headers that determine message framing or belong to a connection.
const FRAMING: [&str; 8] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// The response to denied requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenyResponse {
    /// The status.
    pub status: u16,
    /// Response headers; each replaces existing headers of the same name.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// The response header that contains the name of the rule.
    pub named_by: Option<Arc<str>>,
}

impl DenyResponse {
    /// Parses and validates a response; field names are those of `denyResponse`.
    pub fn read<'a>(
        status: Option<i64>,
        headers: Option<impl ExactSizeIterator<Item = (&'a str, &'a str)>>,
        named_by: Option<&str>,
    ) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Vec::new();
        if status.is_none() && headers.is_none() && named_by.is_none() {
            flaws.push(Flaw::new("", "one of statusCode, headers and blockedByHeaderName must be set"));
        }
        let code = status.map_or(Some(FORBIDDEN), |status| u16::try_from(status).ok());
        let code = code.filter(|code| (200..600).contains(code));
        if code.is_none() {
            flaws.push(Flaw::new("statusCode", "must be between 200 and 599"));
        }
        let mut read = Vec::new();
        if headers.as_ref().is_some_and(|headers| headers.len() > HEADERS_MAX) {
            flaws.push(Flaw::new("headers", format!("must have at most {HEADERS_MAX} entries")));
        }
        for (index, (name, value)) in headers.into_iter().flatten().take(HEADERS_MAX).enumerate() {
            let field = |below: &str| format!("headers[{index}].{below}");
            let checked = if value.is_empty() { Ok(()) } else { holdfast_check::header::value(value) };
            flaws.extend(checked.err().map(|fault| Flaw::new(field("value"), fault)));
            match header_name(name) {
                Ok(name) => read.push((name, value.into())),
                Err(why) => flaws.push(Flaw::new(field("name"), why)),
            }
        }
        let named_by = named_by.map(header_name).transpose();
        let named_by = named_by.map_err(|why| flaws.push(Flaw::new("blockedByHeaderName", why))).unwrap_or_default();
        match code {
            Some(status) if flaws.is_empty() => Ok(Self { status, headers: read, named_by }),
            _ => Err(flaws),
        }
    }

    /// Returns the per-route configuration.
    pub fn encode(&self) -> LuaPerRoute {
        let headers = self.headers.iter().map(|(name, value)| list([text(name), text(value)].into_iter()));
        let named_by = text(self.named_by.as_deref().unwrap_or_default());
        let response = list([text(&self.status.to_string()), named_by, list(headers)].into_iter());
        let script = DataSource { specifier: Some(Specifier::InlineString(SCRIPT.into())), ..Default::default() };
        LuaPerRoute {
            // One entry only: the order of several entries is not defined.
            filter_context: Some(Struct { fields: [(NAME.to_owned(), response)].into() }),
            r#override: Some(Override::SourceCode(script)),
            ..Default::default()
        }
    }

    /// Returns the configuration of the filter in the chain, which runs no script unless a route has one.
    pub(crate) fn in_chain() -> Lua {
        Lua::default()
    }
}

fn header_name(name: &str) -> Result<Arc<str>, String> {
    let name = holdfast_check::header::modifiable_name(name).map_err(|fault| fault.to_string())?;
    if FRAMING.contains(&name.as_str()) {
        return Err(format!("header {name} frames messages, and cannot be changed"));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        status: Option<i64>,
        headers: &[(&str, &str)],
        named_by: Option<&str>,
    ) -> Result<DenyResponse, Vec<String>> {
        let headers = (!headers.is_empty()).then(|| headers.iter().copied());
        DenyResponse::read(status, headers, named_by)
            .map_err(|flaws| flaws.into_iter().map(|flaw| flaw.field.to_string()).collect())
    }

    #[test]
    fn an_answer_is_one_that_can_be_sent() {
        let status = |status| read(Some(status), &[], None).map(|response| response.status);
        assert_eq!(status(200), Ok(200));
        assert_eq!(status(599), Ok(599));
        for bad in [-1, 0, 100, 199, 600, 70_000] {
            assert_eq!(status(bad), Err(vec!["statusCode".to_owned()]), "{bad}");
        }
        assert_eq!(read(None, &[], None), Err(vec![String::new()]));
        assert_eq!(read(None, &[("A", "")], Some("B")).map(|response| response.status), Ok(FORBIDDEN));
        for bad in [":status", "host", "a b", "", "Content-Length", "transfer-encoding"] {
            assert_eq!(read(None, &[(bad, "x")], None), Err(vec!["headers[0].name".to_owned()]), "{bad}");
            assert_eq!(read(None, &[], Some(bad)), Err(vec!["blockedByHeaderName".to_owned()]), "{bad}");
        }
        assert_eq!(read(None, &[("a", "x\r\ny")], None), Err(vec!["headers[0].value".to_owned()]));
        assert_eq!(read(None, &[("a", "x"); HEADERS_MAX + 1], None), Err(vec!["headers".to_owned()]));
    }
}
