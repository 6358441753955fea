{{/* Names and labels. A component's objects are called FULLNAME-COMPONENT. */}}

{{- define "tonnage.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "component" "scheduler") */}}
{{- define "tonnage.name" -}}
{{ include "tonnage.fullname" .root }}-{{ .component }}
{{- end -}}

{{- define "tonnage.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "tonnage.labels" -}}
{{ include "tonnage.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "component" "scheduler" "values" .Values.scheduler) */}}
{{- define "tonnage.serviceAccountName" -}}
{{- if .values.serviceAccount.create -}}
{{ default (include "tonnage.name" .) .values.serviceAccount.name }}
{{- else -}}
{{ required (printf "%s.serviceAccount.name is needed where %s.serviceAccount.create is false" .component .component) .values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "tonnage.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}
