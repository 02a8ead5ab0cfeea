{{/* The command line: values in, flags out. Flags that say no more than the default are left out where a gate that is off
     would make them an error. */}}
{{- define "holdfast.arguments" -}}
{{- $v := .Values -}}
- run
- --data-dir=/var/lib/holdfast/data
- --xds-listen=127.0.0.1:{{ int $v.xds.port }}
- --metrics-listen=0.0.0.0:{{ int $v.metrics.port }}
- --diagnostics-listen=127.0.0.1:{{ int $v.diagnostics.port }}
- --log-level={{ $v.log.level }}
- --log-format={{ $v.log.format }}
- --envoy=none
{{- if $v.watchNamespaces }}
- --watch-namespaces={{ join "," $v.watchNamespaces }}
{{- end }}
- --mass-delete-guard={{ ternary "on" "off" $v.massDeleteGuard }}
- --allow-loopback-backends={{ $v.allowLoopbackBackends }}
- --ack-timeout={{ $v.ackTimeout }}
- --probe={{ $v.probe.mode }}
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
