{{/* Names and labels. A component's objects are called FULLNAME-COMPONENT. */}}

{{/* 50 letters at most, so that a Service's name is one of 63; a longer one ends with its hash, and stays its own. */}}
{{- define "tonnage.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- end -}}
{{- if gt (len $full) 50 -}}
{{- $full = printf "%s-%s" ($full | trunc 41 | trimSuffix "-" | trimSuffix ".") (sha256sum $full | trunc 8) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/*
The name of what is not in the release's own namespace: a release of the same name in another namespace must not have it
too. (dict "root" $ "name" … "namespace" …), namespace "" for what is cluster-wide.
*/}}
{{- define "tonnage.nameOutside" -}}
{{- if or (eq .namespace .root.Release.Namespace) (eq .root.Release.Namespace "tonnage-system") -}}
{{ .name }}
{{- else -}}
{{ .root.Release.Namespace }}:{{ .name }}
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
