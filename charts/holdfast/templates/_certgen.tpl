{{/* Labels and Pod of certgen, which creates certificates in Secrets and exits. */}}
{{- define "holdfast.certgenSelector" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: certgen
{{- end -}}

{{- define "holdfast.certgenLabels" -}}
{{ include "holdfast.certgenSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "holdfast.certgenPod" -}}
metadata:
  labels:
    {{- include "holdfast.certgenLabels" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "holdfast.fullname" . }}-certgen
  automountServiceAccountToken: true
  enableServiceLinks: false
  restartPolicy: OnFailure
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: certgen
      image: {{ include "holdfast.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - certgen
        - --secret={{ .Release.Namespace }}/{{ include "holdfast.xdsSecret" . }}
        - {{ printf "--server-name=%s" (include "holdfast.xdsNames" .) | quote }}
        {{- with .Values.xds.clientCertificates.gateways }}
        - --gateway={{ . | uniq | join "," }}
        {{- end }}
        {{- if include "holdfast.webhookAuthorities" . }}
        - --webhook-configuration={{ include "holdfast.webhookConfiguration" . }}
        {{- end }}
        - --trust-domain={{ .Values.xds.clientCertificates.trustDomain }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities:
          drop: [ALL]
      resources:
        requests: {cpu: 10m, memory: 32Mi}
        limits: {memory: 128Mi}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end -}}
