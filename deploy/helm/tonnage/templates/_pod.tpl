{{/* What pods of every component share: who may do what, where they go, how they are kept apart. */}}

{{/* A map without the keys that are null. */}}
{{- define "tonnage.set" -}}
{{- $set := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $set $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $set -}}
{{- end -}}

{{/* (dict "root" $ "component" … "values" …) */}}
{{- define "tonnage.placement" -}}
{{- if .values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- end -}}

{{/* For what has replicas; a DaemonSet is spread by its nature. */}}
{{- define "tonnage.spread" -}}
{{- if .values.affinity }}
affinity:
  {{- toYaml .values.affinity | nindent 2 }}
{{- else if eq .values.podAntiAffinity "preferred" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "tonnage.selectorLabels" . | nindent 14 }}
{{- else if eq .values.podAntiAffinity "required" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "tonnage.selectorLabels" . | nindent 12 }}
{{- end }}
{{- if .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else if .values.topologySpread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tonnage.selectorLabels" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* Where replicas never share a node there may be none for one more of them: the old one goes first. */}}
{{- define "tonnage.strategy" -}}
strategy:
  {{- if .values.strategy }}
  {{- toYaml .values.strategy | nindent 2 }}
  {{- else }}
  type: RollingUpdate
  rollingUpdate:
    {{- if and (eq .values.podAntiAffinity "required") (not .values.affinity) }}
    maxSurge: 0
    maxUnavailable: 1
    {{- else }}
    maxSurge: 1
    maxUnavailable: 0
    {{- end }}
  {{- end }}
{{- end -}}

{{/* A=true,B=false, in the order of names. */}}
{{- define "tonnage.featureGates" -}}
{{- $pairs := list -}}
{{- range $name, $on := . -}}
{{- $pairs = append $pairs (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "tonnage.disruptionBudget" -}}
{{- if and .values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "tonnage.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "tonnage.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "tonnage.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* (dict … "port" "https") */}}
{{- define "tonnage.networkPolicy" -}}
{{- if .values.networkPolicy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "tonnage.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "tonnage.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "tonnage.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports:
        - port: {{ .port }}
          protocol: TCP
      {{- with .values.networkPolicy.from }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  egress:
    # The API server, by the address in the pod's environment: no name is looked up.
    - ports:
        {{- range .values.networkPolicy.apiServerPorts }}
        - port: {{ . }}
          protocol: TCP
        {{- end }}
    {{- with .values.networkPolicy.extraEgress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The probes that are not null. (dict … "port" "https" "scheme" "HTTPS"), without scheme for plain HTTP. */}}
{{- define "tonnage.probes" -}}
{{- $it := . -}}
{{- range $probe, $path := dict "startupProbe" "/readyz" "livenessProbe" "/livez" "readinessProbe" "/readyz" }}
{{- with get $it.values $probe }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: {{ $it.port }}
    {{- with $it.scheme }}
    scheme: {{ . }}
    {{- end }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
