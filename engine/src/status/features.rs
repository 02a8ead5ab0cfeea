//! The features of Gateway API that are served, as `GatewayClass.status.supportedFeatures` names them.
//!
//! Each is one that conformance tests of Gateway API look at; their manifests stand in `tests/golden/upstream`, with what
//! is served of them.

/// What is served, in order.
pub const SUPPORTED: [&str; 32] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "Gateway",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all features in Gateway API 1.6.1: a name that it does not know tells nothing to anybody.
    const KNOWN: &str = "BackendTLSPolicy BackendTLSPolicySANValidation GRPCRoute GRPCRouteNamedRouteRule Gateway \
        GatewayAddressEmpty GatewayBackendClientCertificate GatewayFrontendClientCertificateValidation \
        GatewayFrontendClientCertificateValidationInsecureFallback GatewayHTTPListenerIsolation \
        GatewayHTTPSListenerDetectMisdirectedRequests GatewayInfrastructurePropagation GatewayPort8080 \
        GatewayStaticAddresses HTTPRoute HTTPRoute303RedirectStatusCode HTTPRoute307RedirectStatusCode \
        HTTPRoute308RedirectStatusCode HTTPRouteBackendProtocolH2C HTTPRouteBackendProtocolWebSocket \
        HTTPRouteBackendRequestHeaderModification HTTPRouteBackendTimeout HTTPRouteCORS \
        HTTPRouteDestinationPortMatching HTTPRouteHostRewrite HTTPRouteMethodMatching HTTPRouteNamedRouteRule \
        HTTPRouteParentRefPort HTTPRoutePathRedirect HTTPRoutePathRewrite HTTPRoutePortRedirect \
        HTTPRouteQueryParamMatching HTTPRouteRequestMirror HTTPRouteRequestMultipleMirrors \
        HTTPRouteRequestPercentageMirror HTTPRouteRequestTimeout HTTPRouteResponseHeaderModification HTTPRouteRetry \
        HTTPRouteRetryBackendTimeout HTTPRouteRetryConnectionError HTTPRouteSchemeRedirect ListenerSet ReferenceGrant \
        TCPRoute TLSRoute TLSRouteModeMixed TLSRouteModeTerminate UDPRoute";

    #[test]
    fn features_are_in_order_and_known_to_gateway_api() {
        assert!(SUPPORTED.is_sorted_by(|a, b| a < b), "sorted, none twice");
        for feature in SUPPORTED {
            assert!(KNOWN.split_whitespace().any(|known| known == feature), "{feature}");
        }
    }
}
