//! Settings of Contour that are flags of Holdfast: those of ContourConfiguration, and of the file in a ConfigMap.

use holdfast_api::apis::{contour, kinds};

use super::{SettingRule, SettingTable, setting};

const KNOWN: &str = "Holdfast does not read the settings of Contour; it has a counterpart of this one";
const UNKNOWN: &str = "Holdfast does not read the settings of Contour, and has no setting with this name";

const FALLBACK: &str = "the flag --httpproxy-fallback-certificate NAMESPACE/NAME";
const CLIENT: &str = "the flag --httpproxy-client-certificate NAMESPACE/NAME";
const GATEWAY: &str = "the flag --httpproxy-gateway NAMESPACE/NAME";
const SERVICE: &str = "the flag --rate-limit-service NAMESPACE/NAME";
const DOMAIN: &str = "the flag --rate-limit-domain";
const FAIL_OPEN: &str = "the flag --rate-limit-fail-open";
const HEADERS: &str = "the flag --rate-limit-headers";
const EXHAUSTED: &str = "the flag --rate-limit-resource-exhausted";
const DEFAULT_LIMIT: &str = "rateLimitPolicy.global in each HTTPProxy: there is no default for all hosts";
const AUTHORIZATION: &str = "spec.virtualhost.authorization in each HTTPProxy";

/// The settings that both forms have.
const SHARED: &[SettingRule] = &[
    setting("gateway.gatewayRef", GATEWAY),
    setting("globalExtAuth", AUTHORIZATION),
    setting("rateLimitService.extensionService", SERVICE),
    setting("rateLimitService.domain", DOMAIN),
    setting("rateLimitService.failOpen", FAIL_OPEN),
    setting("rateLimitService.enableXRateLimitHeaders", HEADERS),
    setting("rateLimitService.enableResourceExhaustedCode", EXHAUSTED),
    setting("rateLimitService.defaultGlobalRateLimitPolicy", DEFAULT_LIMIT),
];

/// The object ContourConfiguration.
pub(in super::super) const CONFIGURATION: SettingTable = SettingTable {
    of: (contour::GROUP, "ContourConfiguration"),
    field: "spec",
    is_text: false,
    known: KNOWN,
    unknown: UNKNOWN,
    parts: &[
        SHARED,
        &[
            setting("httpproxy.fallbackCertificate", FALLBACK),
            setting("httpproxy.rootNamespaces", "the flag --root-namespaces"),
            setting("ingress.classNames", "the flag --ingress-class-names"),
            setting("envoy.clientCertificate", CLIENT),
            setting("envoy.http.port", "the port of the Gateway's listener, or the flag --httpproxy-http"),
            setting("envoy.https.port", "the port of the Gateway's listener, or the flag --httpproxy-https"),
        ],
    ],
};

/// The file `contour.yaml` in a ConfigMap.
pub(in super::super) const FILE: SettingTable = SettingTable {
    of: ("", kinds::CONFIG_MAP),
    field: "contour.yaml",
    is_text: true,
    known: KNOWN,
    unknown: UNKNOWN,
    parts: &[SHARED, &[setting("tls.fallback-certificate", FALLBACK), setting("tls.envoy-client-certificate", CLIENT)]],
};
