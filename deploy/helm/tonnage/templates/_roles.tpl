{{/*
The roles of a component and their bindings, from files/roles/COMPONENT.yaml, which is a copy of what Tonnage's own programs
run with (src/tonnage/roles, `make manifests`). Nothing is added to a rule here. What changes:

  names       tonnage-COMPONENT… becomes FULLNAME-COMPONENT…; outside of the release's namespace, unless that is
              tonnage-system, NAMESPACE:FULLNAME-COMPONENT…
  namespaces  tonnage-system becomes the namespace of the ServiceAccount that gets the rights
  subjects    that ServiceAccount, or those that are handed in
  leases      the names in resourceNames, where `leases` says them

A role that can be left out says which feature it is for, by the annotation tonnage.dev/right; `rights` are those wanted.

(dict "root" $ "component" "scheduler" "rights" (list "serving") "account" (dict "namespace" … "name" …)
      "subjects" (list) "leases" (list))
*/}}
{{- define "tonnage.roles" -}}
{{- $wanted := . -}}
{{- $ours := printf "tonnage-%s" .component -}}
{{- $named := include "tonnage.name" . -}}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/roles/%s.yaml" .component)) -}}
{{- $role := fromYaml . -}}
{{- if and $role.kind (ne $role.kind "ServiceAccount") -}}
{{- $right := dig "metadata" "annotations" "tonnage.dev/right" "" $role -}}
{{- $isBinding := hasSuffix "Binding" $role.kind -}}
{{- $namespace := default "" $role.metadata.namespace -}}
{{- if eq $namespace "tonnage-system" -}}
{{- $namespace = dig "namespace" "" (default dict $wanted.account) -}}
{{- end -}}
{{- if and (or (not $right) (has $right $wanted.rights)) (or (not $isBinding) $wanted.account $wanted.subjects) }}
---
apiVersion: {{ $role.apiVersion }}
kind: {{ $role.kind }}
metadata:
  name: {{ include "tonnage.nameOutside" (dict "root" $wanted.root "name" ($role.metadata.name | replace $ours $named) "namespace" $namespace) }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "tonnage.labels" $wanted | nindent 4 }}
  {{- with $right }}
  annotations:
    tonnage.dev/right: {{ . }}
  {{- end }}
{{- if $isBinding }}
roleRef:
  apiGroup: {{ $role.roleRef.apiGroup }}
  kind: {{ $role.roleRef.kind }}
  {{- if hasPrefix $ours $role.roleRef.name }}
  {{- $of := eq $role.roleRef.kind "ClusterRole" | ternary "" $namespace }}
  name: {{ include "tonnage.nameOutside" (dict "root" $wanted.root "name" ($role.roleRef.name | replace $ours $named) "namespace" $of) }}
  {{- else }}
  name: {{ $role.roleRef.name }}
  {{- end }}
subjects:
  {{- if $wanted.account }}
  - kind: ServiceAccount
    name: {{ $wanted.account.name }}
    namespace: {{ $wanted.account.namespace }}
  {{- end }}
  {{- with $wanted.subjects }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- else }}
rules:
  {{- range $role.rules }}
  {{- if and .resourceNames $wanted.leases (has "leases" .resources) (ne $right "only-scheduler") }}
  {{- $_ := set . "resourceNames" $wanted.leases }}
  {{- end }}
  - {{ toYaml . | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
