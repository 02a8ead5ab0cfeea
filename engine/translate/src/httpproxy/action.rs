//! Translation of one route: the destination of its requests, or the reason why it cannot be served.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::route::{DirectResponsePolicy, ProxyRoute, RequestRedirectPolicy};
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::cookies::CookieRewrite;
use holdfast_envoy::features::cors::CorsSettings;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::headers::HeaderEdits;
use holdfast_envoy::features::ip_filter::IpFilter;
use holdfast_envoy::features::local_rate_limit::LocalLimit;
use holdfast_envoy::features::rate_limit::GlobalLimit;
use holdfast_envoy::features::redirect::{Redirect, Scheme};
use holdfast_envoy::features::rewrite::{PathRewrite, Rewrite};
use holdfast_envoy::features::timeout::RouteTimeouts;
use holdfast_envoy::features::upstream::Upstream;
use holdfast_envoy::model::{Action, BackendCluster, FixedResponse, Forward};
use holdfast_graph::ObjectKey;

use super::auth::HostAuth;
use super::headers::{self, HostValues};
use super::jwt::{self, HostJwt};
use super::limits::LimitFault;
use super::timeouts::{self, Limit};
use super::{cookies, limits, policy, service, upstream};
use crate::httpproxy::includes::Leaf;
use crate::httpproxy::path::Path;
use crate::httpproxy::rewrite::{self, Selected};
use crate::outcome::finding::Finding;
use crate::overlay::Closing;
use crate::reader::Reader;

/// Default timeout of a response: Envoy's own limit.
const RESPONSE_DEFAULT: Duration = Duration::from_secs(15);

/// Policies of a host, which apply to all of its routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Guard {
    /// CORS.
    pub(super) cors: Option<CorsSettings>,
    /// Access list of client addresses.
    pub(super) ip_filter: Option<IpFilter>,
    /// External authorization.
    pub(super) auth: Option<HostAuth>,
    /// JWT providers.
    pub(super) jwt: Option<HostJwt>,
    /// Local rate limit: requests to all routes together, at one Envoy.
    pub(super) local: Option<LocalLimit>,
    /// Global rate limit, shared by all Envoys.
    pub(super) global: Option<GlobalLimit>,
}

impl Guard {
    /// Checks whether the host's policies protect any route of the host.
    fn is_guarding(&self) -> bool {
        self.ip_filter.is_some() || self.auth.is_some() || self.jwt.is_some() || self.global.is_some()
    }
}

/// A route that can be served.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) action: Action,
    /// Replacement of the matched prefix.
    pub(super) replacement: Option<Arc<str>>,
    pub(super) request_headers: HeaderEdits,
    pub(super) response_headers: HeaderEdits,
    pub(super) cors: Option<CorsSettings>,
    pub(super) ip_filter: Option<IpFilter>,
    pub(super) rate_limit: Option<LocalLimit>,
    pub(super) guards: Guards,
    pub(super) cookies: Vec<CookieRewrite>,
    pub(super) backends: BTreeSet<BackendCluster>,
    /// The route is also served without TLS.
    pub(super) permit_insecure: bool,
}

/// Reason why a route cannot be served.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RouteFailure {
    /// All of its Services are missing.
    NoService(Arc<str>),
    /// Its include has no usable target.
    Include(Arc<str>, Class),
    /// The route is invalid.
    Invalid(Arc<str>),
    /// The route is invalid and must not be left out, since a policy protects it.
    Guarded(Arc<str>),
    /// The unit was closed by the overlay.
    Closed(Closing),
}

/// A route to be translated.
pub(super) struct Unit<'a> {
    /// The leaf of the include tree with the HTTPProxy's route.
    pub(super) leaf: &'a Leaf,
    /// Section in the form `routes[1]`.
    pub(super) section: &'a str,
    /// Regex budget of the HTTPProxy.
    pub(super) regexes: &'a Regexes,
}

/// Context of the translation of a route.
pub(super) struct Context<'a, 'r> {
    pub(super) leaf: &'a Leaf,
    /// Section in the form `routes[1]`.
    pub(super) section: &'a str,
    /// Field in the form `spec.routes[1]`.
    pub(super) field: String,
    /// A policy protects the route.
    is_guarded: bool,
    /// Regex budget of the HTTPProxy.
    regexes: &'a Regexes,
    pub(super) reader: &'a mut Reader<'r>,
    pub(super) findings: &'a mut Vec<Finding>,
}

impl Context<'_, '_> {
    /// Checks whether the root defines the JWT provider that a route requires, valid or not.
    fn defines_provider_of(&mut self, route: &ProxyRoute) -> bool {
        let root = self.leaf.ancestors.first().unwrap_or(&self.leaf.owner);
        let Some(Body::HttpProxy(proxy)) = self.reader.object(root).map(|object| &object.body) else { return false };
        let required = route.jwt_verification_policy.as_ref().and_then(|policy| policy.require.as_ref());
        let host = proxy.virtual_host.as_ref().and_then(|host| host.written.as_ref());
        let mut providers = host.and_then(|host| host.jwt_providers.as_deref()).into_iter().flatten();
        required.is_some_and(|required| providers.any(|provider| provider.name == *required))
    }

    /// Reports a fault; the route cannot be served.
    pub(super) fn invalid(
        &mut self,
        below: &str,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> RouteFailure {
        let message = message.into();
        if self.is_guarded {
            return self.guarded(below, kind, reason, &message);
        }
        let reported = self.report(below, kind, reason, &message);
        RouteFailure::Invalid(reported)
    }

    /// Reports a fault of a field that protects the route.
    pub(super) fn guarded(
        &mut self,
        below: &str,
        kind: &'static str,
        reason: &'static str,
        message: &str,
    ) -> RouteFailure {
        RouteFailure::Guarded(self.report(below, kind, reason, message))
    }

    fn report(&mut self, below: &str, kind: &'static str, reason: &'static str, message: &str) -> Arc<str> {
        let field = format!("{}.{below}", self.field);
        self.findings.push(Finding::error(&self.leaf.owner, &field, kind, reason, message));
        format!("{field}: {message}").into()
    }

    /// Sets the class of the last finding.
    pub(super) fn of_class(&mut self, class: Class) {
        if let Some(found) = self.findings.last_mut() {
            found.class = class;
        }
    }

    /// Sets the cause of the finding that was reported last.
    fn caused_by(&mut self, cause: Option<ObjectKey>) {
        if let Some(found) = self.findings.last_mut() {
            found.cause = cause;
        }
    }

    /// Reports a field without effect.
    pub(super) fn warn(&mut self, below: &str, kind: &'static str, reason: &'static str, message: &str) {
        let field = format!("{}.{below}", self.field);
        self.findings.push(Finding::warning(&self.leaf.owner, field, kind, reason, message));
    }
}

/// Translates a route.
pub(super) fn make(
    unit: &Unit<'_>,
    route: &ProxyRoute,
    guard: Option<&Guard>,
    settings: &Settings,
    reader: &mut Reader<'_>,
    findings: &mut Vec<Finding>,
) -> Result<Made, RouteFailure> {
    let lists = [&route.ip_allow_policy, &route.ip_deny_policy];
    let limited = route.rate_limit_policy.is_some() || route.jwt_verification_policy.is_some();
    let filtered = limited || lists.into_iter().flatten().any(|list| !list.is_empty());
    let is_guarded = filtered || guard.is_none_or(Guard::is_guarding);
    let Unit { leaf, section, regexes } = *unit;
    let mut context =
        Context { leaf, section, field: format!("spec.{section}"), is_guarded, regexes, reader, findings };
    let context = &mut context;
    let ip_filter = policy::ip_filter(route.ip_allow_policy.as_deref(), route.ip_deny_policy.as_deref())
        .map_err(|(field, reason, message)| context.guarded(field, "IPFilterError", reason, &message))?;
    let guards = guards(context, route, guard, settings)?;
    let rate_limit = policy::rate_limit(route.rate_limit_policy.as_ref()).map_err(|message| {
        context.guarded(
            "rateLimitPolicy",
            "RouteError",
            "RateLimitPolicyNotValid",
            &format!("route.rateLimitPolicy is invalid: {message}"),
        )
    })?;
    let known = [("CONTOUR_NAMESPACE", leaf.owner.namespace.to_string())];
    let request = headers::read(route.request_headers_policy.as_ref(), HostValues::LiteralOrHeader, &known).map_err(
        |message| {
            let message = format!("{message} on request headers");
            context.invalid("requestHeadersPolicy", "RouteError", "RequestHeadersPolicyInvalid", message)
        },
    )?;
    let response =
        headers::read(route.response_headers_policy.as_ref(), HostValues::Refused, &known).map_err(|message| {
            let message = format!("{message} on response headers");
            context.invalid("responseHeadersPolicy", "RouteError", "ResponseHeaderPolicyInvalid", message)
        })?;
    let cookies = cookies::read(context, route.cookie_rewrite_policies.as_deref(), "cookieRewritePolicies", "route")?;
    let replacement = replacement(context, route)?;
    let mut backends = BTreeSet::new();
    let rewrite = Rewrite { host: request.host.clone(), host_from: request.host_from.clone(), ..Rewrite::default() };
    let action = action(context, route, rewrite, &cookies)?;
    if let Action::Forward(forward) = &action {
        let named = forward.backends.iter().filter_map(|backend| backend.backend.as_ref());
        backends.extend(named.chain(forward.mirrors.iter().map(|mirror| &mirror.backend)).cloned());
    }
    let secure = guards.ext_auth.is_some() || guards.jwt.is_some();
    let guard = guard.cloned().unwrap_or_default();
    Ok(Made {
        action,
        replacement,
        request_headers: request.edits,
        response_headers: response.edits,
        cors: guard.cors,
        // The route's own access list replaces that of the host.
        ip_filter: ip_filter.or(guard.ip_filter),
        rate_limit,
        guards,
        cookies,
        backends,
        permit_insecure: route.permit_insecure == Some(true) && !secure,
    })
}

/// Returns the destination of the requests of a route: Services, a redirect or a direct response.
fn action(
    context: &mut Context<'_, '_>,
    route: &ProxyRoute,
    host: Rewrite,
    cookies: &[CookieRewrite],
) -> Result<Action, RouteFailure> {
    let services = route.services.as_ref().is_some_and(|services| !services.is_empty());
    match (services, &route.request_redirect_policy, &route.direct_response_policy) {
        (true, None, None) => Ok(Action::Forward(Box::new(forward(context, route, host, cookies)?))),
        (false, Some(redirect), None) => Ok(Action::Redirect(redirected(context, redirect)?)),
        (false, None, Some(response)) => Ok(Action::Respond(direct(context, response)?)),
        _ => {
            let message = "must set exactly one of route.services or route.requestRedirectPolicy or \
                           route.directResponsePolicy";
            Err(context.invalid("services", "RouteError", "RouteActionCountNotValid", message))
        }
    }
}

/// Returns the external authorization, JWT authentication and global rate limit of a route.
fn guards(
    context: &mut Context<'_, '_>,
    route: &ProxyRoute,
    guard: Option<&Guard>,
    settings: &Settings,
) -> Result<Guards, RouteFailure> {
    let policy = route.auth_policy.as_ref();
    let ext_auth = match guard.and_then(|guard| guard.auth.as_ref()) {
        Some(auth) if auth.applies(policy) => Some(auth.of_route(policy).map_err(|wrong| {
            let problem = context.guarded("authPolicy", "AuthError", wrong.reason, &wrong.message);
            context.of_class(wrong.class);
            context.caused_by(wrong.cause.map(|cause| *cause));
            problem
        })?),
        Some(_) => None,
        None => {
            if policy.is_some() {
                let message = "authPolicy has no effect: the host has no authorization";
                context.warn("authPolicy", "AuthError", "IgnoredField", message);
            }
            None
        }
    };
    let host = guard.and_then(|guard| guard.jwt.as_ref());
    let jwt = match jwt::of_route(host, route.jwt_verification_policy.as_ref()) {
        // The host is closed because of a fault of its JWT providers, which is reported there.
        Err((_, jwt::NOT_DEFINED, _)) if guard.is_none() && context.defines_provider_of(route) => None,
        jwt => {
            jwt.map_err(|(field, reason, message)| context.guarded(field, "JWTVerificationError", reason, &message))?
        }
    };
    let own = route.rate_limit_policy.as_ref().and_then(|policy| policy.global.as_ref());
    let rate_limit = match own {
        None => guard.and_then(|guard| guard.global.clone()),
        Some(own) => {
            let owner = &context.leaf.owner;
            limits::read(owner, context.section, own, context.regexes, settings, context.reader).map_err(
                |LimitFault { class, message, cause }| {
                    let message = format!("route.rateLimitPolicy is invalid: {message}");
                    let (kind, reason) = ("RouteError", "RateLimitPolicyNotValid");
                    let error = context.guarded("rateLimitPolicy.global", kind, reason, &message);
                    context.of_class(class);
                    context.caused_by(cause);
                    error
                },
            )?
        }
    };
    let secure = ext_auth.is_some() || jwt.is_some();
    if secure && route.permit_insecure == Some(true) {
        let message = "permitInsecure has no effect: authorization and JWT verification require TLS";
        context.warn("permitInsecure", "SpecError", "IgnoredField", message);
    }
    Ok(Guards { ext_auth, jwt, rate_limit, ..Guards::default() })
}

fn replacement(context: &mut Context<'_, '_>, route: &ProxyRoute) -> Result<Option<Arc<str>>, RouteFailure> {
    let policy = route.path_rewrite_policy.as_ref();
    let entries = policy.and_then(|policy| policy.replace_prefix.as_deref()).unwrap_or_default();
    let field = "pathRewritePolicy.replacePrefix";
    match rewrite::select(entries, &context.leaf.conditions.path) {
        Ok(Selected::Replacement(replacement)) => {
            for (reason, message) in rewrite::doubts(entries, &replacement, context.leaf) {
                context.warn(field, "PrefixReplaceError", reason, &message);
            }
            Ok(Some(replacement))
        }
        Ok(Selected::Nothing) => Ok(None),
        Ok(Selected::NoneMatches) => {
            let rendered = match &context.leaf.conditions.path {
                Path::Exact(text) | Path::Regex(text) | Path::Prefix(text) => text.clone(),
            };
            let message = format!(
                "no entry of replacePrefix matches the rendered prefix {rendered:?}, so that the path is not rewritten"
            );
            context.warn(field, "PrefixReplaceError", "NoMatchingPrefix", &message);
            Ok(None)
        }
        Err((reason, message)) => Err(context.invalid(field, "PrefixReplaceError", reason, message)),
    }
}

fn forward(
    context: &mut Context<'_, '_>,
    route: &ProxyRoute,
    host: Rewrite,
    cookies: &[CookieRewrite],
) -> Result<Forward, RouteFailure> {
    let timeouts = route.timeout_policy.clone().unwrap_or_default();
    let mut limit = |field: &str, text: Option<&str>| {
        timeouts::limit(text).map_err(|fault| {
            let message = format!("route.timeoutPolicy failed to parse: error parsing {field} timeout: {fault}");
            context.invalid("timeoutPolicy", "RouteError", "TimeoutPolicyNotValid", message)
        })
    };
    let request = match limit("response", timeouts.response.as_deref())? {
        Limit::Default => RESPONSE_DEFAULT,
        Limit::Off => Duration::ZERO,
        Limit::After(limit) => limit,
    };
    let or_off = |limit| match limit {
        Limit::Default => None,
        Limit::Off => Some(Duration::ZERO),
        Limit::After(limit) => Some(limit),
    };
    let idle = or_off(limit("idle", timeouts.idle.as_deref())?);
    let idle_connection = or_off(limit("idle connection", timeouts.idle_connection.as_deref())?);
    let retry = policy::retry(route.retry_policy.as_ref())
        .map_err(|fault| context.invalid("retryPolicy", "RouteError", "RetryPolicyNotValid", fault))?;
    let health = upstream::health(route.health_check_policy.as_ref())
        .map_err(|fault| context.invalid("healthCheckPolicy", "RouteError", "HealthCheckPolicyInvalid", fault))?;
    let internal_redirect = policy::internal_redirect(route.internal_redirect_policy.as_ref()).map_err(|fault| {
        context.invalid("internalRedirectPolicy", "RouteError", "InternalRedirectPolicyInvalid", fault)
    })?;
    let (balance, hashed, warning) = policy::balance(route.load_balancer_policy.as_ref());
    if let Some(message) = warning {
        context.warn("loadBalancerPolicy", "SpecError", "IgnoredField", &message);
    }
    let common = Upstream { balance, health, idle: idle_connection, ..Upstream::default() };
    let sni = host.host.clone().unwrap_or_else(|| "".into());
    let found = service::find(context, route, &common, &sni, cookies)?;
    Ok(Forward {
        backends: found.backends,
        mirrors: found.mirrors,
        rewrite: host,
        timeouts: RouteTimeouts { request: Some(request), backend_request: None, idle },
        retry,
        hashed,
        session: None,
        internal_redirect,
        no_websockets: route.enable_websockets != Some(true),
    })
}

fn redirected(context: &mut Context<'_, '_>, written: &RequestRedirectPolicy) -> Result<Redirect, RouteFailure> {
    let mut invalid = |below: &str, message: String| {
        let field = format!("requestRedirectPolicy{below}");
        Err(context.invalid(&field, "RouteError", "RequestRedirectPolicy", message))
    };
    let set = |text: &Option<Arc<str>>| text.clone().filter(|text| !text.is_empty());
    let path = match (set(&written.path), set(&written.prefix)) {
        (Some(_), Some(_)) => return invalid("", "cannot specify both redirect path and redirect prefix".into()),
        (Some(path), None) => {
            if let Err(fault) = holdfast_check::path::full_replacement(&path) {
                return invalid(".path", fault.to_string());
            }
            Some(PathRewrite::Full(path))
        }
        (None, Some(prefix)) => {
            if let Err(fault) = holdfast_check::path::prefix_replacement(&prefix) {
                return invalid(".prefix", fault.to_string());
            }
            Some(PathRewrite::Prefix(prefix))
        }
        (None, None) => None,
    };
    let scheme = match set(&written.scheme).as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => return invalid(".scheme", format!("scheme {other:?} is neither http nor https")),
    };
    let host = set(&written.hostname);
    if let Some(host) = &host
        && let Err(fault) = holdfast_check::host::precise_hostname(host)
    {
        return invalid(".hostname", fault.to_string());
    }
    let port = match written.port.map(holdfast_check::number::port).transpose() {
        Ok(port) => port,
        Err(fault) => return invalid(".port", fault.to_string()),
    };
    match holdfast_check::number::redirect_status(written.status_code.unwrap_or(302)) {
        Ok(status) => Ok(Redirect { scheme, host, port, path, status }),
        Err(fault) => invalid(".statusCode", fault.to_string()),
    }
}

fn direct(context: &mut Context<'_, '_>, written: &DirectResponsePolicy) -> Result<FixedResponse, RouteFailure> {
    let body = written.body.clone().unwrap_or_else(|| "".into());
    let checked = holdfast_check::number::response_status(written.status_code).and_then(|status| {
        holdfast_check::number::body(body.as_bytes())?;
        Ok(status)
    });
    checked.map(|status| FixedResponse::new(status, body)).map_err(|fault| {
        context.invalid("directResponsePolicy", "RouteError", "DirectResponsePolicyNotValid", fault.to_string())
    })
}
