{{/* Checks that a schema cannot express: combinations of values that have no effect, or do harm. Holdfast would reject
     most of them when it starts; these checks fail before anything is installed. */}}
{{- define "holdfast.checks" -}}
{{- $gates := .Values.featureGates -}}
{{- $fallback := .Values.fallback -}}
{{- if and $fallback.useLastValidConfig (not $gates.FallbackConfiguration) -}}
{{- fail "fallback.useLastValidConfig has no effect without featureGates.FallbackConfiguration" -}}
{{- end -}}
{{- if and $gates.BackfillUnresolvedReferences (not $fallback.useLastValidConfig) -}}
{{- fail "featureGates.BackfillUnresolvedReferences has no effect without fallback.useLastValidConfig" -}}
{{- end -}}
{{- if and $fallback.maxBackfillAge (not $fallback.useLastValidConfig) -}}
{{- fail "fallback.maxBackfillAge has no effect without fallback.useLastValidConfig" -}}
{{- end -}}
{{- if eq (int .Values.httpProxy.httpPort) (int .Values.httpProxy.httpsPort) -}}
{{- fail "httpProxy.httpPort and httpProxy.httpsPort must be two ports" -}}
{{- end -}}
{{- $limit := .Values.rateLimit -}}
{{- if and (not $limit.service) (or $limit.domain $limit.timeout $limit.failOpen $limit.headers $limit.resourceExhausted) -}}
{{- fail "rateLimit has no effect without rateLimit.service" -}}
{{- end -}}
{{- $xds := .Values.xds -}}
{{- if and $xds.tls.enabled (not $xds.tokens.enabled) (not $xds.clientCertificates.existingSecret) (not $xds.clientCertificates.gateways) -}}
{{- fail "xds.tls.enabled needs credentials of Envoys: set xds.tokens.enabled, xds.clientCertificates.existingSecret or xds.clientCertificates.gateways" -}}
{{- end -}}
{{- if and $xds.clientCertificates.gateways (or (not (include "holdfast.certgen" .)) $xds.clientCertificates.existingSecret) -}}
{{- fail "xds.clientCertificates.gateways needs xds.tls.enabled and xds.tls.source=certgen, and excludes xds.tls.existingSecret and xds.clientCertificates.existingSecret" -}}
{{- end -}}
{{- if and .Values.provision.enabled $xds.tls.enabled (not $xds.tokens.enabled) -}}
{{- fail "provision.enabled needs xds.tokens.enabled: Envoys that Holdfast creates have no other credential" -}}
{{- end -}}
{{- if and .Values.provision.enabled .Values.provision.gatewayAddresses -}}
{{- fail "provision.gatewayAddresses has no effect with provision.enabled" -}}
{{- end -}}
{{- if and .Values.gatewayClass.parameters .Values.watchNamespaces (not (has .Release.Namespace .Values.watchNamespaces)) -}}
{{- fail (printf "gatewayClass.parameters need namespace %s in watchNamespaces: Holdfast reads the parameters from a ConfigMap in that namespace" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not $xds.tls.enabled) -}}
{{- fail "webhook.enabled needs xds.tls.enabled: the webhook has the certificate of the xDS server" -}}
{{- end -}}
{{- if and (include "holdfast.webhookAuthorities" .) (not (include "holdfast.certgen" .)) -}}
{{- fail "webhook.enabled needs webhook.caBundle, unless certgen creates the certificate (xds.tls.source=certgen)" -}}
{{- end -}}
{{- if and .Values.webhook.caBundle (not .Values.webhook.enabled) -}}
{{- fail "webhook.caBundle has no effect without webhook.enabled" -}}
{{- end -}}
{{- $ports := list (int .Values.xds.port) (int .Values.metrics.port) (int .Values.diagnostics.port) (int .Values.webhook.port) -}}
{{- if lt (len ($ports | uniq)) 4 -}}
{{- fail "xds.port, metrics.port, diagnostics.port and webhook.port must be four ports" -}}
{{- end -}}
{{- end -}}
