//! Protection of Backends, BackendConfigPolicies, GatewayExtensions and DirectResponses, field by field.

use super::backend::{Aws, Backend, DynamicForwardProxy, Gcp, Lambda, Static};
use super::backend_config::{BackendConfigSpec, BackendConfigTls, Parameters};
use super::direct_response::DirectResponse;
use super::extension::{
    AuthorizationResponse, ExtAuthProvider, ExtProcProvider, GatewayExtension, GrpcService, HttpService,
    RateLimitProvider,
};
use crate::apis::protection::{Declare, Rule, Sheet, allowed};

impl Declare for BackendConfigSpec {
    fn declare(&self, sheet: &mut Sheet) {
        let BackendConfigSpec {
            connect_timeout,
            dns,
            per_connection_buffer_limit_bytes,
            tcp_keepalive,
            common_http_protocol_options,
            http1_protocol_options,
            http2_protocol_options,
            tls,
            load_balancer,
            health_check,
            outlier_detection,
            circuit_breakers,
            upstream_proxy_protocol,
        } = self;
        sheet.free("connectTimeout", "how long connecting may take", connect_timeout);
        sheet.free("dns", "how often names are looked up; which addresses are allowed is decided today", dns);
        let is_set = per_connection_buffer_limit_bytes.is_some();
        sheet.limit("perConnectionBufferLimitBytes", "limits the memory that a backend uses in Envoy", is_set);
        sheet.free("tcpKeepalive", "how connections are kept open", tcp_keepalive);
        let because = "limits of connections to a backend; they do not authorize clients";
        sheet.free("commonHttpProtocolOptions", because, common_http_protocol_options);
        sheet.free("http1ProtocolOptions", "the form of messages", http1_protocol_options);
        sheet.free("http2ProtocolOptions", "the form of messages", http2_protocol_options);
        let because = "requests to the backend are encrypted";
        sheet.guard("tls", because, tls.as_ref().map(|_| true), &());
        tls.clone().unwrap_or_default().declare(sheet);
        sheet.free("loadBalancer", "which endpoints get requests", load_balancer);
        sheet.free("healthCheck", "which endpoints get requests", health_check);
        sheet.free("outlierDetection", "which endpoints get requests", outlier_detection);
        let because = "limits what reaches the backend; any figure is a limit";
        sheet.limit("circuitBreakers", because, circuit_breakers.is_some());
        let because = "the client address that the backend trusts";
        sheet.equal("upstreamProxyProtocol", because, upstream_proxy_protocol);
    }
}

impl Declare for BackendConfigTls {
    fn declare(&self, sheet: &mut Sheet) {
        let BackendConfigTls {
            secret_ref,
            files,
            well_known,
            insecure_skip_verify,
            sni,
            verify_subject_alt_names,
            parameters,
            alpn_protocols,
            allow_renegotiation,
            simple,
        } = self;
        sheet.equal("tls.secretRef", "credentials and authorities are those of today", secret_ref);
        sheet.equal("tls.files", "credentials and authorities are those of today", files);
        sheet.equal("tls.wellKnownCACertificates", "the certificate authorities that verify backends", well_known);
        let because = "the certificate of the backend is not verified";
        sheet.opening("tls.insecureSkipVerify", because, allowed(*insecure_skip_verify));
        sheet.equal("tls.sni", "the server name that the backend receives", sni);
        let because = "the names that a backend must prove";
        sheet.equal("tls.verifySubjectAltNames", because, verify_subject_alt_names);
        parameters.clone().unwrap_or_default().declare(sheet);
        sheet.free("tls.alpnProtocols", "the protocol that is agreed on", alpn_protocols);
        sheet.opening("tls.allowRenegotiation", "a new handshake within a connection", allowed(*allow_renegotiation));
        sheet.equal("tls.simpleTLS", "whether the backend is shown a certificate", simple);
    }
}

impl Declare for Parameters {
    fn declare(&self, sheet: &mut Sheet) {
        let Parameters { cipher_suites, ecdh_curves, max_version, min_version, signature_algorithms } = self;
        // An unset list means Envoy's defaults, which are never the weaker choice.
        let listed = |list: &Option<Vec<std::sync::Arc<str>>>| -> Vec<String> {
            list.iter().flatten().map(ToString::to_string).collect()
        };
        let because = "the earlier version has only entries of today; Envoy's default (unset) is always allowed";
        sheet.opening("tls.parameters.cipherSuites", because, listed(cipher_suites));
        sheet.opening("tls.parameters.ecdhCurves", because, listed(ecdh_curves));
        sheet.equal("tls.parameters.minVersion", "excludes old versions of TLS", min_version);
        sheet.equal("tls.parameters.maxVersion", "the version of TLS that backends get", max_version);
        sheet.opening("tls.parameters.signatureAlgorithms", because, listed(signature_algorithms));
    }
}

impl Declare for Backend {
    fn declare(&self, sheet: &mut Sheet) {
        let Backend { kind, aws, fixed, dynamic_forward_proxy, gcp, priority_groups, unread: _ } = self;
        sheet.free("type", "of no effect", kind);
        let Aws { lambda, ec2, account_id, auth, region } = aws.clone().unwrap_or_default();
        let because = "the credentials that calls are signed with are those of today";
        sheet.equal("aws.auth", because, &auth);
        let because = "where requests go";
        let called = lambda.as_ref().map(|lambda| {
            let Lambda {
                account_id: _,
                endpoint_url,
                function_name: _,
                invocation_mode: _,
                payload_transform_mode: _,
                qualifier: _,
            } = lambda;
            endpoint_url.clone()
        });
        sheet.equal("aws.lambda.endpointURL", "where signed requests go, and whether by TLS", &called);
        sheet.free("aws.lambda.*", because, &lambda);
        sheet.free("aws.ec2", "not served, in any version", &ec2);
        sheet.free("aws.accountId", because, &account_id);
        sheet.free("aws.region", because, &region);
        if let Some(Static { hosts: _, app_protocol: _ }) = fixed {}
        let because = "where requests go, like the Services of a route; which addresses are allowed is decided today";
        sheet.free("static", because, fixed);
        let anywhere = dynamic_forward_proxy.as_ref().map(|_| "anywhere".to_owned());
        sheet.opening("dynamicForwardProxy", "requests choose where they go", anywhere);
        let tls = dynamic_forward_proxy.as_ref().and_then(|DynamicForwardProxy { enable_tls }| *enable_tls);
        let because = "requests to backends are encrypted";
        sheet.guard("dynamicForwardProxy.enableTls", because, tls.filter(|tls| *tls), &());
        if let Some(Gcp { host: _, audience: _ }) = gcp {}
        sheet.free("gcp", "not served, in any version", gcp);
        sheet.free("priorityGroups", "other Backends, each in the version that is served", priority_groups);
    }
}

impl Declare for DirectResponse {
    fn declare(&self, sheet: &mut Sheet) {
        let DirectResponse { status, body, body_format, unread: _ } = self;
        let because = "a response with status 400 or higher refuses requests, in both versions";
        sheet.demands("status", Rule::Guard, because, Default::default());
        let refuses = !(100..400).contains(status);
        if refuses {
            sheet.does("status", "refuses");
            sheet.requires("status", "refuses");
        }
        sheet.free("body", "the body of the response", body);
        sheet.free("bodyFormat", "the body of the response", body_format);
    }
}

impl Declare for GatewayExtension {
    fn declare(&self, sheet: &mut Sheet) {
        let GatewayExtension { kind, ext_auth, ext_proc, rate_limit, jwt, oauth2, unread: _ } = self;
        sheet.free("type", "of no effect", kind);
        let because = "the extension is of this form";
        sheet.guard("extAuth", because, ext_auth.as_ref().map(|_| true), &());
        ext_auth.clone().unwrap_or_default().declare(sheet);
        sheet.guard("extProc", because, ext_proc.as_ref().map(|_| true), &());
        ext_proc.clone().unwrap_or_default().declare(sheet);
        sheet.guard("rateLimit", because, rate_limit.as_ref().map(|_| true), &());
        rate_limit.clone().unwrap_or_default().declare(sheet);
        let because = "the keys and claims of tokens that authorize requests";
        sheet.access("jwt", because, jwt, jwt.is_some());
        sheet.access("oauth2", "the provider that users log in at", oauth2, oauth2.is_some());
    }
}

const EXTERNAL_SERVICE: &str = "the service that decides";
const SHOWN: &str = "the data by which the service decides";
const TAKEN: &str = "the parts of the response that are trusted";
const FAIL_OPEN: &str = "requests are allowed if the service does not respond";
const WAITING: &str = "timeouts and retries of requests to the service";

impl Declare for ExtAuthProvider {
    fn declare(&self, sheet: &mut Sheet) {
        let ExtAuthProvider {
            grpc_service,
            http_service,
            headers_to_forward,
            fail_open,
            clear_route_cache,
            with_request_body,
            status_on_error,
            stat_prefix,
        } = self;
        let GrpcService { backend_ref, authority, request_timeout, retry } = grpc_service.clone().unwrap_or_default();
        sheet.equal("extAuth.grpcService.backendRef", EXTERNAL_SERVICE, &backend_ref);
        sheet.equal("extAuth.grpcService.authority", EXTERNAL_SERVICE, &authority);
        sheet.free("extAuth.grpcService.requestTimeout, retry", WAITING, &(request_timeout, retry));
        let HttpService {
            backend_ref,
            path_prefix,
            request_timeout,
            authorization_request,
            authorization_response,
            retry,
        } = http_service.clone().unwrap_or_default();
        sheet.equal("extAuth.httpService.backendRef", EXTERNAL_SERVICE, &backend_ref);
        sheet.equal("extAuth.httpService.pathPrefix", EXTERNAL_SERVICE, &path_prefix);
        sheet.equal("extAuth.httpService.authorizationRequest", SHOWN, &authorization_request);
        let AuthorizationResponse { headers_to_backend, headers_to_client, headers_to_client_on_success } =
            authorization_response.unwrap_or_default();
        let field = "extAuth.httpService.authorizationResponse.headersToBackend";
        sheet.equal(field, TAKEN, &headers_to_backend);
        let field = "extAuth.httpService.authorizationResponse.headersToClient, headersToClientOnSuccess";
        sheet.free(field, "response headers", &(headers_to_client, headers_to_client_on_success));
        sheet.free("extAuth.httpService.requestTimeout, retry", WAITING, &(request_timeout, retry));
        sheet.equal("extAuth.headersToForward", SHOWN, headers_to_forward);
        sheet.opening("extAuth.failOpen", FAIL_OPEN, allowed(*fail_open));
        sheet.equal("extAuth.clearRouteCache", "whether the response changes the route", clear_route_cache);
        sheet.equal("extAuth.withRequestBody", SHOWN, with_request_body);
        let because = "the status of requests that are refused because the service does not respond";
        sheet.free("extAuth.statusOnError", because, status_on_error);
        sheet.free("extAuth.statPrefix", "names of statistics", stat_prefix);
    }
}

impl Declare for ExtProcProvider {
    fn declare(&self, sheet: &mut Sheet) {
        let ExtProcProvider {
            grpc_service,
            fail_open,
            processing_mode,
            allow_processing_mode_override,
            allowed_processing_mode_overrides,
            message_timeout,
            max_message_timeout,
            stat_prefix,
            route_cache_action,
            metadata_options,
            request_attributes,
            filter_stage,
        } = self;
        let GrpcService { backend_ref, authority, request_timeout, retry } = grpc_service.clone().unwrap_or_default();
        sheet.equal("extProc.grpcService.backendRef", EXTERNAL_SERVICE, &backend_ref);
        sheet.equal("extProc.grpcService.authority", EXTERNAL_SERVICE, &authority);
        sheet.free("extProc.grpcService.requestTimeout, retry", WAITING, &(request_timeout, retry));
        sheet.opening("extProc.failOpen", FAIL_OPEN, allowed(*fail_open));
        sheet.equal("extProc.processingMode", SHOWN, processing_mode);
        sheet.equal("extProc.allowProcessingModeOverride", SHOWN, allow_processing_mode_override);
        sheet.equal("extProc.allowedProcessingModeOverrides", SHOWN, allowed_processing_mode_overrides);
        sheet.free("extProc.messageTimeout, maxMessageTimeout", WAITING, &(message_timeout, max_message_timeout));
        sheet.free("extProc.statPrefix", "names of statistics", stat_prefix);
        sheet.equal("extProc.routeCacheAction", "whether the response changes the route", route_cache_action);
        sheet.equal("extProc.metadataOptions", SHOWN, metadata_options);
        sheet.equal("extProc.requestAttributes", SHOWN, request_attributes);
        sheet.equal("extProc.filterStage", "which filters come before", filter_stage);
    }
}

impl Declare for RateLimitProvider {
    fn declare(&self, sheet: &mut Sheet) {
        let RateLimitProvider { grpc_service, domain, fail_open, timeout, x_rate_limit_headers } = self;
        let GrpcService { backend_ref, authority, request_timeout, retry } = grpc_service.clone().unwrap_or_default();
        sheet.equal("rateLimit.grpcService.backendRef", "the service that counts", &backend_ref);
        sheet.equal("rateLimit.grpcService.authority", "the service that counts", &authority);
        sheet.free("rateLimit.grpcService.requestTimeout, retry", WAITING, &(request_timeout, retry));
        sheet.equal("rateLimit.domain", "selects the limits", domain);
        sheet.opening("rateLimit.failOpen", FAIL_OPEN, allowed(*fail_open));
        sheet.free("rateLimit.timeout", WAITING, timeout);
        sheet.free("rateLimit.xRateLimitHeaders", "response headers", x_rate_limit_headers);
    }
}
