//! Coverage of sub-conditions: each one in the status of an HTTPProxy or ExtensionService has a golden pair.

use std::fs;
use std::path::Path;

/// Types and reasons, those of Contour first. Each must be in the expected result of a golden pair.
const ROWS: &[(&str, &[&str])] = &[
    ("Orphaned", &["Orphaned"]),
    (
        "VirtualHostError",
        &[
            "FQDNNotSpecified",
            "DuplicateVhost",
            "RateLimitPolicyNotValid",
            "FQDNInvalid",
            "HostnameConflict",
            "NotReadable",
        ],
    ),
    ("RootNamespaceError", &["RootProxyNotAllowedInNamespace"]),
    (
        "SpecError",
        &[
            "NothingDefined",
            "IgnoredField",
            // Reasons of ExtensionServices.
            "TimeoutPolicyNotValid",
            "UnsupportedProtocol",
            "CircuitBreakerPolicyNotValid",
            "TLSUpstreamValidation",
            "InconsistentProtocol",
        ],
    ),
    ("ListenerError", &["ErrorIdentifyingListener"]),
    (
        "TLSError",
        &[
            "TLSIncompatibleFeatures",
            "TLSConfigNotValid",
            "DelegationNotPermitted",
            "SecretNotValid",
            "FallbackNotPresent",
            "FallbackNotDelegated",
            "FallbackNotValid",
            "ClientValidationInvalid",
            "CACertificateNotDelegated",
        ],
    ),
    ("CORSError", &["PolicyDidNotParse"]),
    ("IPFilterError", &["IncompatibleIPAddressFilters", "InvalidCIDR", "IPFilterPolicyNotValid"]),
    (
        "JWTVerificationError",
        &[
            "JWTProviderNotDefined",
            "InvalidJWTVerificationPolicy",
            "JWTVerificationNotPermitted",
            "DuplicateProviderName",
            "MultipleDefaultProvidersSpecified",
            "ProviderInvalid",
            "JWKSSourceConflict",
            "JWKSSourceMissing",
            "LocalJWKSInvalid",
            "RemoteJWKSSchemeInvalid",
            "RemoteJWKSPortInvalid",
            "RemoteJWKSURIInvalid",
            "RemoteJWKSUpstreamValidationInvalid",
            "RemoteJWKSCACertificateNotDelegated",
            "RemoteJWKSTimeoutInvalid",
            "RemoteJWKSCacheDurationInvalid",
            "RemoteJWKSDNSLookupFamilyInvalid",
        ],
    ),
    (
        "AuthError",
        &[
            "AuthNotPermitted",
            "AuthBadResourceVersion",
            "ExtensionServiceNotFound",
            "AuthServiceTypeInvalid",
            "AuthContextForHTTP",
            "AuthResponseTimeoutInvalid",
            "AuthBadPathPrefix",
            "AuthBadAllowedHeader",
            "AuthBadRequestBody",
            "IgnoredField",
        ],
    ),
    (
        "IncludeError",
        &[
            "PathMatchConditionsNotValid",
            "DuplicateMatchConditions",
            "IncludeNotFound",
            "RootIncludesRoot",
            "IncludeCreatesCycle",
        ],
    ),
    (
        "RouteError",
        &[
            "RouteActionCountNotValid",
            "PathMatchConditionsNotValid",
            "HeaderMatchConditionsNotValid",
            "QueryParameterMatchConditionsNotValid",
            "RequestHeadersPolicyInvalid",
            "ResponseHeaderPolicyInvalid",
            "CookieRewritePoliciesInvalid",
            "TimeoutPolicyNotValid",
            "RateLimitPolicyNotValid",
            "RequestRedirectPolicy",
            "HealthCheckPolicyInvalid",
            "DuplicateMatchConditions",
            "RetryPolicyNotValid",
            "InternalRedirectPolicyInvalid",
            "DirectResponsePolicyNotValid",
            "NotReadable",
        ],
    ),
    (
        "PrefixReplaceError",
        &[
            "MustHavePrefix",
            "DuplicateReplacement",
            "AmbiguousReplacement",
            "NoMatchingPrefix",
            "EmptyReplacement",
            "RelativeReplacement",
            "InvalidReplacement",
        ],
    ),
    (
        "ServiceError",
        &[
            "ServiceUnresolvedReference",
            "ServicePortInvalid",
            "UnsupportedProtocol",
            "UnsupportedServiceType",
            "TLSUpstreamValidation",
            "RequestHeadersPolicyInvalid",
            "ResponseHeadersPolicyInvalid",
            "SlowStartInvalid",
            "OnlyOneMirror",
            "WeightInvalid",
            "IgnoredField",
        ],
    ),
    (
        "TCPProxyError",
        &[
            "TLSMustBeConfigured",
            "NoServicesAndInclude",
            "NothingDefined",
            "ServiceUnresolvedReference",
            "IgnoredField",
        ],
    ),
    ("TCPProxyIncludeError", &["IncludeNotFound", "RootIncludesRoot", "IncludeCreatesCycle"]),
];

#[test]
fn every_sub_condition_has_a_golden_pair() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/proxies");
    let answers: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(".out.yaml"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let rows = ROWS.iter().flat_map(|(kind, reasons)| reasons.iter().map(move |reason| format!("{kind} {reason}: ")));
    let bare: Vec<String> = rows.filter(|row| !answers.iter().any(|answer| answer.contains(row))).collect();
    assert!(bare.is_empty(), "no golden pair shows {bare:#?}");
}
