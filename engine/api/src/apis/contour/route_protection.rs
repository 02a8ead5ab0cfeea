//! Protection of the routes of HTTPProxies, field by field.
//!
//! The guards of a host are always those of the desired version.

use super::policy::{AuthorizationPolicy, HeadersPolicy, IpFilterPolicy, RateLimitPolicy};
use super::route::{CookieRewritePolicy, JwtVerificationPolicy, ProxyRoute, ProxyService, RequestRedirectPolicy};
use crate::apis::protection::{Names, Rule, Sheet, Way, allowed, names};

/// The two halves of the protection of a route.
pub struct Protection {
    /// Fields that decide which requests are allowed.
    pub entering: Sheet,
    /// Fields that matter only where a Service answers: headers, cookies.
    pub forwarding: Sheet,
}

/// Returns the sheets of a route. `host_is_filtered`: the host has an address filter, which a filter of the route
/// replaces.
pub fn protection(route: &ProxyRoute, host_is_filtered: bool) -> Protection {
    let ProxyRoute {
        conditions,
        services,
        enable_websockets,
        permit_insecure,
        auth_policy,
        timeout_policy,
        retry_policy,
        health_check_policy,
        load_balancer_policy,
        path_rewrite_policy,
        request_headers_policy,
        response_headers_policy,
        cookie_rewrite_policies,
        rate_limit_policy,
        request_redirect_policy,
        direct_response_policy,
        internal_redirect_policy,
        jwt_verification_policy,
        ip_allow_policy,
        ip_deny_policy,
    } = route;
    let (mut entering, mut forwarding) = (Sheet::default(), Sheet::default());
    let because = "selects the requests; routes of two versions are compared by their conditions";
    entering.free("conditions", because, conditions);
    entering.opening(
        "enableWebsockets",
        "the protocols to which connections may be upgraded",
        allowed(*enable_websockets),
    );
    entering.opening("permitInsecure", "requests without TLS", allowed(*permit_insecure));
    authorization(auth_policy.as_ref(), &mut entering);
    entering.free("timeoutPolicy", "how long requests may take", timeout_policy);
    entering.free("retryPolicy", "how often a backend is tried", retry_policy);
    entering.free("healthCheckPolicy", "which endpoints get requests", health_check_policy);
    entering.free("loadBalancerPolicy", "which endpoints get requests", load_balancer_policy);
    entering.free("pathRewritePolicy", "the path that backends see", path_rewrite_policy);
    limits(rate_limit_policy.as_ref(), &mut entering);
    let to_tls = request_redirect_policy.as_ref().is_some_and(|redirect| {
        let RequestRedirectPolicy { scheme, hostname: _, port: _, status_code: _, path: _, prefix: _ } = redirect;
        scheme.as_deref() == Some("https")
    });
    let because = "a redirect to `https` excludes requests without TLS; other redirects do not protect";
    answers("requestRedirectPolicy", because, to_tls, route, &mut entering);
    let because = "a direct response reaches no Service, in both versions";
    answers("directResponsePolicy", because, direct_response_policy.is_some(), route, &mut entering);
    let because = "redirects of backends; filters see the new request again";
    entering.free("internalRedirectPolicy", because, internal_redirect_policy);
    let JwtVerificationPolicy { require, disabled } = jwt_verification_policy.clone().unwrap_or_default();
    let token = Some((require.filter(|provider| !provider.is_empty()), disabled == Some(true)));
    let token = token.filter(|(require, disabled)| require.is_some() || *disabled);
    entering.equal("jwtVerificationPolicy", "the provider of tokens that authorize requests", &token);
    addresses([ip_allow_policy, ip_deny_policy], host_is_filtered, &mut entering);

    let because = "removing or overwriting (`set`) keeps the client's own value from backends; a `Host` that is copied \
                   from another header does not";
    let (removed, set) = changed(request_headers_policy.as_ref());
    let gone: Names = removed.union(&set).cloned().collect();
    forwarding.headers("requestHeadersPolicy", because, Way::Request, gone, Names::new());
    let because = "`remove` hides the header from clients; `set` in the earlier version is sufficient, and `set` \
                   today demands nothing";
    let (removed, set) = changed(response_headers_policy.as_ref());
    forwarding.headers("responseHeadersPolicy", because, Way::Response, removed, set);
    let because = "`secure` and `sameSite` keep cookies from other sites";
    cookies("cookieRewritePolicies", because, cookie_rewrite_policies.as_deref(), &mut forwarding);
    services_of(services.as_deref().unwrap_or_default(), &mut forwarding);
    Protection { entering, forwarding }
}

fn authorization(policy: Option<&AuthorizationPolicy>, sheet: &mut Sheet) {
    let AuthorizationPolicy { disabled, context } = policy.cloned().unwrap_or_default();
    let called = Some((disabled == Some(true), context.unwrap_or_default()));
    let called = called.filter(|(disabled, context)| *disabled || !context.is_empty());
    sheet.equal("authPolicy", "whether the authorization server gets a request, and its content", &called);
}

/// Declares the lists of allowed and denied client addresses.
fn addresses(lists: [&Option<Vec<IpFilterPolicy>>; 2], host_is_filtered: bool, sheet: &mut Sheet) {
    let field = "ipAllowPolicy, ipDenyPolicy";
    let because = "the client addresses that are allowed; a list of the route replaces that of its host";
    sheet.demands(field, Rule::Equal, because, Names::new());
    let [allowed, denied] = lists.map(|list| list.clone().unwrap_or_default());
    let is_filtered = host_is_filtered || !allowed.is_empty() || !denied.is_empty();
    let token = format!("{:?}", (allowed, denied));
    sheet.does(field, &token);
    if is_filtered {
        sheet.requires(field, &token);
    }
}

fn limits(policy: Option<&RateLimitPolicy>, sheet: &mut Sheet) {
    let written = policy.cloned().unwrap_or_default();
    let because = "limits the number of requests; a global limit of the route replaces that of its host";
    sheet.demands("rateLimitPolicy", Rule::Equal, because, Names::new());
    let RateLimitPolicy { local: _, global } = &written;
    if global.is_none() {
        sheet.does("rateLimitPolicy", "none that is shared");
    }
    let token = format!("{written:?}");
    sheet.does("rateLimitPolicy", &token);
    let is_default = written == RateLimitPolicy::default();
    sheet.requires("rateLimitPolicy", if is_default { "none that is shared" } else { &token });
}

/// Declares a demand for an answer without a Service, which every route without a Service meets.
fn answers(field: &'static str, because: &'static str, answers: bool, route: &ProxyRoute, sheet: &mut Sheet) {
    sheet.demands(field, Rule::Guard, because, Names::new());
    let serves = route.services.as_ref().is_some_and(|services| !services.is_empty());
    if !serves {
        sheet.does(field, "answers");
    }
    if answers {
        sheet.requires(field, "answers");
    }
}

/// Returns the names of headers that are removed, and of those that are overwritten.
fn changed(policy: Option<&HeadersPolicy>) -> (Names, Names) {
    let Some(HeadersPolicy { set, remove }) = policy else { return Default::default() };
    let removed = names(remove.iter().flatten().map(|name| &**name));
    let overwritten = set.iter().flatten().filter(|header| header.host_source().is_none());
    (removed, names(overwritten.map(|header| &*header.name)))
}

fn cookies(field: &'static str, because: &'static str, list: Option<&[CookieRewritePolicy]>, sheet: &mut Sheet) {
    let is_guarded = |policy: &&CookieRewritePolicy| {
        let CookieRewritePolicy { name: _, path_rewrite: _, domain_rewrite: _, secure, same_site } = policy;
        *secure == Some(true) || same_site.is_some()
    };
    let all = || list.unwrap_or_default().iter();
    sheet.demands(field, Rule::Equal, because, all().filter(is_guarded).map(|one| format!("{one:?}")).collect());
    all().for_each(|one| sheet.does(field, &format!("{one:?}")));
}

/// Declares the changes that every Service of the route makes to requests.
fn services_of(services: &[ProxyService], sheet: &mut Sheet) {
    let mut of_all: Option<Names> = None;
    for service in services {
        let ProxyService {
            name: _,
            port: _,
            health_port: _,
            protocol: _,
            weight: _,
            validation: _,
            mirror: _,
            request_headers_policy,
            response_headers_policy: _,
            cookie_rewrite_policies: _,
            slow_start_policy: _,
        } = service;
        let (removed, set) = changed(request_headers_policy.as_ref());
        let own: Names = removed.union(&set).cloned().collect();
        of_all = Some(match of_all {
            Some(known) => known.intersection(&own).cloned().collect(),
            None => own,
        });
    }
    let because = "a header that is removed for every Service is removed in the earlier version, too";
    let by_route = sheet.hidden(Way::Request);
    let field = "services[].requestHeadersPolicy";
    sheet.headers(field, because, Way::BeforeBackends, of_all.unwrap_or_default(), by_route);
    let because = "changes of responses concern this Service only";
    sheet.free("services[].responseHeadersPolicy, cookieRewritePolicies", because, &());
    let because =
        "a Service that is reached over TLS today is reached with the same TLS settings in the earlier version";
    sheet.demands("services[].protocol, validation", Rule::Equal, because, Names::new());
    let because = "where requests go; each is checked against today's Services";
    sheet.free("services[].name, port, weight, mirror, healthPort, slowStartPolicy", because, &());
}

/// Returns whether each Service in `then` that is reached by TLS now is reached by the same TLS in `then`.
pub fn speaks_as_now(then: &[ProxyService], now: &[ProxyService]) -> bool {
    let is_secure = |service: &ProxyService| service.validation.is_some() || service.protocol.as_deref() == Some("tls");
    then.iter().all(|service| {
        let mut same = now.iter().filter(|other| other.name == service.name && other.port == service.port);
        let as_written =
            |other: &ProxyService| other.validation == service.validation && other.protocol == service.protocol;
        !same.clone().any(is_secure) || same.any(as_written)
    })
}
