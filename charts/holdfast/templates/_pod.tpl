{{/* Not empty if the probe runs in a separate container. */}}
{{- define "holdfast.sidecar" -}}
{{- if and .Values.probe.sidecar (ne .Values.probe.mode "off") }}true{{ end -}}
{{- end -}}

{{/* The Pod template of the StatefulSet and of the Deployment; only the volume of the data folder differs. */}}
{{- define "holdfast.pod" -}}
metadata:
  labels:
    {{- include "holdfast.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "holdfast.serviceAccount" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: holdfast
      image: {{ include "holdfast.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "holdfast.arguments" . | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        - name: POD_UID
          valueFrom: {fieldRef: {fieldPath: metadata.uid}}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: xds, containerPort: {{ int .Values.xds.port }}, protocol: TCP}
        - {name: metrics, containerPort: {{ int .Values.metrics.port }}, protocol: TCP}
        {{- if .Values.webhook.enabled }}
        - {name: webhook, containerPort: {{ int .Values.webhook.port }}, protocol: TCP}
        {{- end }}
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        initialDelaySeconds: 5
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities:
          drop: [ALL]
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: data, mountPath: /var/lib/holdfast}
        - {name: tmp, mountPath: /tmp}
        {{- if include "holdfast.sidecar" . }}
        - {name: probe, mountPath: /run/holdfast-probe}
        {{- end }}
        {{- if .Values.xds.tls.enabled }}
        - {name: xds, mountPath: /etc/holdfast/xds, readOnly: true}
        {{- if and .Values.xds.tokens.enabled .Values.xds.tokens.jwks }}
        - {name: xds-keys, mountPath: /etc/holdfast/xds-keys, readOnly: true}
        {{- end }}
        {{- if .Values.xds.clientCertificates.existingSecret }}
        - {name: xds-clients, mountPath: /etc/holdfast/xds-clients, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if .Values.storeKey.enabled }}
        - {name: store-key, mountPath: /etc/holdfast/store-key, readOnly: true}
        {{- end }}
    {{- if include "holdfast.sidecar" . }}
    - name: probe
      image: {{ include "holdfast.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - probe
        - --probe-folder=/run/holdfast-probe
        - --log-level={{ .Values.log.level }}
        - --log-format={{ .Values.log.format }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities:
          drop: [ALL]
      {{- with .Values.probe.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: probe, mountPath: /run/holdfast-probe}
    {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- if include "holdfast.sidecar" . }}
    - name: probe
      emptyDir: {sizeLimit: 16Mi}
    {{- end }}
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.persistence.emptyDirSizeLimit }}}
    {{- end }}
    {{- if .Values.xds.tls.enabled }}
    - name: xds
      secret:
        secretName: {{ include "holdfast.xdsSecret" . }}
        defaultMode: 0440
        items:
          - {key: tls.crt, path: tls.crt}
          - {key: tls.key, path: tls.key}
          - {key: ca.crt, path: ca.crt}
    {{- if and .Values.xds.tokens.enabled .Values.xds.tokens.jwks }}
    - name: xds-keys
      configMap:
        name: {{ include "holdfast.fullname" . }}-xds-keys
    {{- end }}
    {{- with .Values.xds.clientCertificates.existingSecret }}
    - name: xds-clients
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items:
          - {key: ca.crt, path: ca.crt}
    {{- end }}
    {{- end }}
    {{- if .Values.storeKey.enabled }}
    - name: store-key
      secret:
        secretName: {{ include "holdfast.storeKeySecret" . }}
        defaultMode: 0440
        items:
          - {key: {{ .Values.storeKey.key | quote }}, path: {{ .Values.storeKey.key | quote }}}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end -}}
