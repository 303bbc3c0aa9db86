{{- define "inferplan.labels" -}}
app.kubernetes.io/name: inferplan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "inferplan.selector" -}}
app.kubernetes.io/name: inferplan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "inferplan.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The user that the API server sees when the operator calls. */ -}}
{{- define "inferplan.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:inferplan-operator
{{- end }}
