{{/* The command line: converts values to flags. Flags with their default are left out where a disabled gate would make
     them an error. */}}
{{- define "holdfast.arguments" -}}
{{- $v := .Values -}}
- run
- --data-dir=/var/lib/holdfast/data
- --xds-listen=0.0.0.0:{{ int $v.xds.port }}
- --xds-virtual-hosts={{ $v.xds.virtualHosts }}
- --metrics-listen=0.0.0.0:{{ int $v.metrics.port }}
- --diagnostics-listen=127.0.0.1:{{ int $v.diagnostics.port }}
- --log-level={{ $v.log.level }}
- --log-format={{ $v.log.format }}
- --envoy=none
{{- if $v.xds.tls.enabled }}
- --xds-tls-cert=/etc/holdfast/xds/tls.crt
- --xds-tls-key=/etc/holdfast/xds/tls.key
{{- if $v.xds.tokens.enabled }}
- {{ printf "--xds-token-audience=%s" $v.xds.tokens.audience | quote }}
- {{ printf "--xds-token-issuer=%s" $v.xds.tokens.issuer | quote }}
{{- if $v.xds.tokens.jwks }}
- --xds-token-jwks=/etc/holdfast/xds-keys/jwks.json
{{- end }}
{{- end }}
{{- if $v.xds.clientCertificates.existingSecret }}
- --xds-client-ca=/etc/holdfast/xds-clients/ca.crt
- --xds-trust-domain={{ $v.xds.clientCertificates.trustDomain }}
{{- else if $v.xds.clientCertificates.gateways }}
- --xds-client-ca=/etc/holdfast/xds/ca.crt
- --xds-trust-domain={{ $v.xds.clientCertificates.trustDomain }}
{{- end }}
{{- else }}
- --insecure-xds=true
{{- end }}
{{- if $v.webhook.enabled }}
- --webhook-listen=0.0.0.0:{{ int $v.webhook.port }}
- --webhook-mode={{ lower $v.webhook.mode }}
- --webhook-tls-cert=/etc/holdfast/xds/tls.crt
- --webhook-tls-key=/etc/holdfast/xds/tls.key
{{- end }}
- --provision={{ $v.provision.enabled }}
{{- if $v.provision.enabled }}
- {{ printf "--provision-image=%s" $v.provision.image | quote }}
{{- if $v.provision.drain }}
- {{ printf "--provision-drain-image=%s" (include "holdfast.image" .) | quote }}
{{- end }}
- --provision-xds-address={{ include "holdfast.fullname" . }}.{{ .Release.Namespace }}.svc:{{ int $v.xds.port }}
{{- if $v.xds.tls.enabled }}
- --provision-xds-authorities=/etc/holdfast/xds/ca.crt
- {{ printf "--provision-token-audience=%s" $v.xds.tokens.audience | quote }}
{{- end }}
{{- else }}
{{- with $v.provision.gatewayAddresses }}
- --gateway-addresses={{ join "," . }}
{{- end }}
{{- end }}
{{- if $v.watchNamespaces }}
- --watch-namespaces={{ join "," $v.watchNamespaces }}
{{- end }}
- --lease-name={{ include "holdfast.fullname" . }}
- --lease-namespace={{ .Release.Namespace }}
- --shared-secrets={{ ternary "on" "off" (not (empty (include "holdfast.shares" .))) }}
- --mass-delete-guard={{ ternary "on" "off" $v.massDeleteGuard }}
- --allow-loopback-backends={{ $v.allowLoopbackBackends }}
- --allow-health-checks-by-name={{ $v.allowHealthChecksByName }}
- --ack-timeout={{ $v.ackTimeout }}
- --probe={{ $v.probe.mode }}
{{- if include "holdfast.sidecar" . }}
- --probe-folder=/run/holdfast-probe
{{- end }}
- --probe-timeout={{ $v.probe.timeout }}
{{- $gates := list }}
{{- range $gate, $on := $v.featureGates }}
{{- $gates = append $gates (printf "%s=%t" $gate $on) }}
{{- end }}
- --feature-gates={{ join "," $gates }}
{{- if $v.fallback.useLastValidConfig }}
- --use-last-valid-config-for-fallback=true
- --backfill-dependants={{ $v.fallback.backfillDependants }}
{{- with $v.fallback.maxBackfillAge }}
- --max-backfill-age={{ . }}
{{- end }}
{{- end }}
{{- if $v.featureGates.InvalidRouteReplacement }}
- --invalid-route-response-code={{ int $v.replacement.responseCode }}
{{- with $v.replacement.responseBody }}
- {{ printf "--invalid-route-response-body=%s" . | quote }}
{{- end }}
{{- end }}
- --invalid-policy-response-code={{ int $v.replacement.policyResponseCode }}
{{- with $v.httpProxy.gateway }}
- --httpproxy-gateway={{ . }}
{{- end }}
- --httpproxy-http={{ int $v.httpProxy.httpPort }}
- --httpproxy-https={{ int $v.httpProxy.httpsPort }}
{{- with $v.httpProxy.rootNamespaces }}
- --root-namespaces={{ join "," . }}
{{- end }}
{{- with $v.httpProxy.ingressClassNames }}
- {{ printf "--ingress-class-names=%s" (join "," .) | quote }}
{{- end }}
{{- with $v.httpProxy.fallbackCertificate }}
- --httpproxy-fallback-certificate={{ . }}
{{- end }}
{{- with $v.httpProxy.clientCertificate }}
- --httpproxy-client-certificate={{ . }}
{{- end }}
{{- with $v.rateLimit }}
{{- if .service }}
- --rate-limit-service={{ .service }}
{{- with .domain }}
- {{ printf "--rate-limit-domain=%s" . | quote }}
{{- end }}
{{- with .timeout }}
- --rate-limit-timeout={{ . }}
{{- end }}
- --rate-limit-fail-open={{ .failOpen }}
- --rate-limit-headers={{ .headers }}
- --rate-limit-resource-exhausted={{ .resourceExhausted }}
{{- end }}
{{- end }}
{{- if $v.storeKey.enabled }}
- --store-key-file=/etc/holdfast/store-key/{{ $v.storeKey.key }}
{{- end }}
{{- end -}}
