//! External authorization: the server of a host, and the settings of a route.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::contour::guard::{AllowedHeader, AuthorizationServer};
use holdfast_api::apis::contour::policy::AuthorizationPolicy;
use holdfast_api::apis::contour::virtual_host::VirtualHost;
use holdfast_api::apis::scheme;
use holdfast_api::fault::Class;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::call_options::CallOptions;
use holdfast_envoy::features::ext_auth::{
    AuthProtocol, AuthServer, BufferedBody, OverHttp, RouteExtAuth, TIMEOUT_DEFAULT,
};
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::{Like, MatchedPart};
use holdfast_graph::{ObjectKey, Role};

use super::timeouts::{self, Limit};
use super::{HOST, extension};
use crate::reader::Reader;

/// The only supported version of ExtensionServices.
const VERSION: &str = "projectcontour.io/v1alpha1";
/// Default limit of the request body that is sent to the server, in bytes.
const BODY_DEFAULT: i64 = 1024;

/// Reason why authorization cannot be served: the field below the host, reason, class and a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    pub(super) field: String,
    pub(super) reason: &'static str,
    pub(super) class: Class,
    pub(super) message: String,
    /// The object at fault, if it is not the HTTPProxy.
    pub(super) cause: Option<Box<ObjectKey>>,
}

impl Wrong {
    fn new(field: impl Into<String>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.into(), reason, class: Class::Invalid, message: message.into(), cause: None }
    }
}

/// Authorization settings of a host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostAuth {
    /// The server; or the reason why it cannot be used.
    pub(super) server: Result<Arc<AuthServer>, Wrong>,
    /// Default for routes without settings.
    pub(super) enabled: bool,
    context: BTreeMap<String, String>,
}

impl HostAuth {
    /// Checks whether authorization applies to a route with these settings.
    pub(super) fn applies(&self, policy: Option<&AuthorizationPolicy>) -> bool {
        policy.map_or(self.enabled, |policy| policy.disabled != Some(true))
    }

    /// Returns the authorization settings of a route.
    pub(super) fn of_route(&self, policy: Option<&AuthorizationPolicy>) -> Result<RouteExtAuth, Wrong> {
        let server = self.server.clone()?;
        let mut context = self.context.clone();
        context.extend(policy.and_then(|policy| policy.context.clone()).unwrap_or_default());
        let auth = RouteExtAuth { server, context, body: None };
        match auth.check().into_iter().next() {
            Some(flaw) => Err(Wrong::new(
                "context",
                "AuthContextForHTTP",
                format!("route.authPolicy is invalid: {}: {}", flaw.field, flaw.message),
            )),
            None => Ok(auth),
        }
    }
}

/// Reads the authorization of a host.
pub(super) fn of_host(key: &ObjectKey, host: &VirtualHost, reader: &mut Reader<'_>) -> Option<HostAuth> {
    let written = host.authorization.as_ref()?;
    let policy = written.auth_policy.clone().unwrap_or_default();
    let context = policy.context.unwrap_or_default();
    let secure = host.tls.as_ref().is_some_and(|tls| tls.secret_name.as_deref().is_some_and(|name| !name.is_empty()));
    let mut server = if secure {
        server(key, written, reader)
    } else {
        let message = "Spec.VirtualHost.Authorization.ExtensionServiceRef can only be defined for root HTTPProxies \
                       that terminate TLS";
        Err(Wrong::new("authorization", "AuthNotPermitted", message))
    };
    if !context.is_empty() && server.as_ref().is_ok_and(|server| matches!(server.spoken, AuthProtocol::Http(_))) {
        let message =
            "Spec.VirtualHost.Authorization.AuthPolicy.Context is not supported for a server of service type http";
        server = Err(Wrong::new("authorization.authPolicy.context", "AuthContextForHTTP", message));
    }
    Some(HostAuth { server, enabled: policy.disabled != Some(true), context })
}

fn server(key: &ObjectKey, written: &AuthorizationServer, reader: &mut Reader<'_>) -> Result<Arc<AuthServer>, Wrong> {
    let reference = written.extension_ref.clone().unwrap_or_default();
    let version = reference.api_version.as_deref().filter(|version| !version.is_empty()).unwrap_or(VERSION);
    if version != VERSION {
        let message = format!(
            "Spec.Virtualhost.Authorization.extensionRef specifies an unsupported resource version {version:?}"
        );
        return Err(Wrong::new("authorization.extensionRef.apiVersion", "AuthBadResourceVersion", message));
    }
    let namespace = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let name = reference.name.as_deref().unwrap_or_default();
    let service = scheme::extension_key(namespace.unwrap_or(&key.namespace), name);
    reader.edge(key, HOST, &service, Role::Requires);
    let (group, response) = extension::resolve(&service, reader).map_err(|why| {
        let named = service.namespaced_name();
        let message = format!("Spec.Virtualhost.Authorization.ServiceRef extension service {named:?} {why}");
        let wrong = Wrong::new("authorization.extensionRef", "ExtensionServiceNotFound", message);
        Wrong { class: Class::Referential, cause: Some(Box::new(service.clone())), ..wrong }
    })?;
    let limit = timeouts::limit(written.response_timeout.as_deref()).map_err(|fault| {
        let message = format!("Spec.Virtualhost.Authorization.ResponseTimeout is invalid: {fault}");
        Wrong::new("authorization.responseTimeout", "AuthResponseTimeoutInvalid", message)
    })?;
    let timeout = match (limit, response) {
        (Limit::After(limit), _) | (Limit::Default, Limit::After(limit)) => limit,
        (Limit::Off, _) | (Limit::Default, Limit::Off) => Duration::ZERO,
        (Limit::Default, Limit::Default) => TIMEOUT_DEFAULT,
    };
    let (spoken, headers) = spoken(written)?;
    let fail_open = written.fail_open == Some(true);
    let body = written.with_request_body.as_ref().map(|body| {
        let max = body.max_request_bytes.filter(|max| *max != 0).unwrap_or(BODY_DEFAULT);
        BufferedBody {
            max: u32::try_from(max).unwrap_or(0),
            partial: body.allow_partial_message == Some(true),
            as_bytes: body.pack_as_bytes == Some(true),
        }
    });
    let server = AuthServer {
        name: names::proxy_auth_filter(&service, fail_open).into(),
        owners: vec![key.clone(), service],
        remote: Remote::Group(group),
        call_options: CallOptions::default(),
        spoken,
        timeout,
        fail_open,
        body,
        headers,
        status_on_error: None,
        stat_prefix: None,
    };
    match server.check().into_iter().next() {
        None => Ok(Arc::new(server)),
        Some(flaw) => {
            let (field, reason) = match &*flaw.field {
                "body" => ("withRequestBody", "AuthBadRequestBody"),
                "pathPrefix" => ("httpSettings.pathPrefix", "AuthBadPathPrefix"),
                _ => ("httpSettings", "AuthBadAllowedHeader"),
            };
            let message = format!("Spec.Virtualhost.Authorization is invalid: {}: {}", flaw.field, flaw.message);
            Err(Wrong::new(format!("authorization.{field}"), reason, message))
        }
    }
}

/// Returns the protocol of the server, and the request headers that are sent to it.
fn spoken(written: &AuthorizationServer) -> Result<(AuthProtocol, Vec<Like>), Wrong> {
    let settings = written.http_settings.clone();
    match written.service_type.as_deref().unwrap_or_default() {
        "" | "grpc" if settings.is_some() => {
            let message = "Spec.Virtualhost.Authorization: httpSettings can only be set where serviceType is http";
            Err(Wrong::new("authorization.httpSettings", "AuthServiceTypeInvalid", message))
        }
        "" | "grpc" => Ok((AuthProtocol::Grpc, Vec::new())),
        "http" => {
            let settings = settings.unwrap_or_default();
            let list = |field: &str, list: Option<Vec<AllowedHeader>>| {
                let read = list.unwrap_or_default().into_iter().enumerate().map(|(index, header)| {
                    like(&header).ok_or_else(|| {
                        let field = format!("authorization.httpSettings.{field}[{index}]");
                        let message = format!(
                            "Spec.Virtualhost.Authorization: {field}: exactly one of exact, prefix, suffix and contains \
                             must be set"
                        );
                        Wrong::new(field, "AuthBadAllowedHeader", message)
                    })
                });
                read.collect::<Result<Vec<_>, _>>()
            };
            let to_server = list("allowedAuthorizationHeaders", settings.allowed_authorization_headers)?;
            let to_backend = list("allowedUpstreamHeaders", settings.allowed_upstream_headers)?;
            let path_prefix = settings.path_prefix.unwrap_or_else(|| "".into());
            Ok((AuthProtocol::Http(OverHttp { path_prefix, to_backend, ..OverHttp::default() }), to_server))
        }
        other => {
            let message = format!("Spec.Virtualhost.Authorization: serviceType {other:?} is neither grpc nor http");
            Err(Wrong::new("authorization.serviceType", "AuthServiceTypeInvalid", message))
        }
    }
}

fn like(header: &AllowedHeader) -> Option<Like> {
    let parts = [
        (MatchedPart::Whole, &header.exact),
        (MatchedPart::Prefix, &header.prefix),
        (MatchedPart::Suffix, &header.suffix),
        (MatchedPart::Contains, &header.contains),
    ];
    let mut set = parts.into_iter().filter_map(|(part, text)| Some((part, text.clone()?)));
    let (part, text) = set.next()?;
    let only = set.next().is_none();
    only.then(|| Like { part, text: text.to_ascii_lowercase().into(), ignore_case: header.ignore_case == Some(true) })
}
