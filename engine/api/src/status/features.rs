//! Supported features of Gateway API, as listed in `GatewayClass.status.supportedFeatures`.
//!
//! Each has conformance tests in Gateway API; their manifests are in `tests/golden/upstream`, with the resulting
//! configuration.

/// Supported features, in order.
const SUPPORTED: [&str; 42] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
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
    "HTTPRouteDestinationPortMatching",
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
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];
/// Further features where Holdfast creates Envoys for Gateways.
const WITH_DATA_PLANES: [&str; 3] =
    ["GatewayAddressEmpty", "GatewayInfrastructurePropagation", "GatewayStaticAddresses"];

/// Returns the supported features, in order. `provision`: whether Holdfast creates Envoys for Gateways.
pub fn supported(provision: bool) -> Vec<&'static str> {
    let mut all = SUPPORTED.to_vec();
    if provision {
        all.extend(WITH_DATA_PLANES);
        all.sort_unstable();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all features in Gateway API 1.6.1; any other name is meaningless to readers.
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
        for feature in supported(true) {
            assert!(KNOWN.split_whitespace().any(|known| known == feature), "{feature}");
        }
    }
}
