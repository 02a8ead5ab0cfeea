{{/* What no schema can say: values that have no effect, or harm, together with others. Holdfast itself would refuse most
     of them when it starts; here they are told before anything is installed. */}}
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
{{- fail "with xds.tls Envoys have to prove which Gateway they are of: xds.tokens.enabled, or xds.clientCertificates.existingSecret, or both" -}}
{{- end -}}
{{- if and $xds.clientCertificates.gateways (or (not (include "holdfast.certgen" .)) $xds.clientCertificates.existingSecret) -}}
{{- fail "xds.clientCertificates.gateways needs xds.tls.source=certgen, and neither xds.tls.existingSecret nor xds.clientCertificates.existingSecret" -}}
{{- end -}}
{{- if and .Values.provision.enabled $xds.tls.enabled (not $xds.tokens.enabled) -}}
{{- fail "provision.enabled needs xds.tokens.enabled: Envoys that are made have no other proof" -}}
{{- end -}}
{{- if and .Values.provision.enabled .Values.provision.gatewayAddresses -}}
{{- fail "provision.gatewayAddresses has no effect with provision.enabled" -}}
{{- end -}}
{{- if and .Values.gatewayClass.parameters .Values.watchNamespaces (not (has .Release.Namespace .Values.watchNamespaces)) -}}
{{- fail (printf "gatewayClass.parameters stand in namespace %s, which is not among watchNamespaces" .Release.Namespace) -}}
{{- end -}}
{{- $ports := list (int .Values.xds.port) (int .Values.metrics.port) (int .Values.diagnostics.port) -}}
{{- if lt (len ($ports | uniq)) 3 -}}
{{- fail "xds.port, metrics.port and diagnostics.port must be three ports" -}}
{{- end -}}
{{- end -}}
