{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "holdfast.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "holdfast.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "holdfast.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create=false needs serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Not empty if replicas share proven configuration. */}}
{{- define "holdfast.shares" -}}
{{- if or (eq .Values.sharedStore.mode "on") (and (eq .Values.sharedStore.mode "auto") (gt (int .Values.replicas) 1)) -}}
yes
{{- end -}}
{{- end -}}

{{- define "holdfast.storeKeySecret" -}}
{{- default (printf "%s-store-key" (include "holdfast.fullname" .)) .Values.storeKey.existingSecret -}}
{{- end -}}

{{- define "holdfast.xdsSecret" -}}
{{- /* Each source of certificates has a separate Secret, so that no source overwrites the Secret of the other. */ -}}
{{- $made := ternary "xds-certificate" "xds" (eq .Values.xds.tls.source "certgen") -}}
{{- default (printf "%s-%s" (include "holdfast.fullname" .) $made) .Values.xds.tls.existingSecret -}}
{{- end -}}

{{/* The webhook configuration. It belongs to the cluster, so that its name contains the namespace of the release. */}}
{{- define "holdfast.webhookConfiguration" -}}
{{- printf "%s-%s" .Release.Namespace (include "holdfast.fullname" .) -}}
{{- end -}}

{{/* Not empty if certgen sets the authorities of the webhook. */}}
{{- define "holdfast.webhookAuthorities" -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.caBundle) -}}
yes
{{- end -}}
{{- end -}}

{{/* The names in the certificate, by which Envoys reach the xDS server and the API server reaches the webhook. */}}
{{- define "holdfast.xdsNames" -}}
{{- $host := printf "%s.%s" (include "holdfast.fullname" .) .Release.Namespace -}}
{{- $names := list (printf "%s.svc" $host) (printf "%s.svc.cluster.local" $host) $host -}}
{{- if .Values.webhook.enabled -}}
{{- $names = append $names (printf "%s-webhook.%s.svc" (include "holdfast.fullname" .) .Release.Namespace) -}}
{{- end -}}
{{- concat $names .Values.xds.tls.names | uniq | join "," -}}
{{- end -}}

{{/* Not empty if certgen creates the certificates. */}}
{{- define "holdfast.certgen" -}}
{{- if and .Values.xds.tls.enabled (not .Values.xds.tls.existingSecret) (eq .Values.xds.tls.source "certgen") -}}
yes
{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
