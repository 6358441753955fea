{{/* What is said of the scheduler in more than one file. */}}

{{/* The lease: what a whole configuration says, with kube-scheduler's defaults; else its own, or kube-scheduler's in mode only. */}}
{{- define "tonnage.leaseNamespace" -}}
{{- if .Values.scheduler.config -}}
{{- dig "leaderElection" "resourceNamespace" "kube-system" .Values.scheduler.config -}}
{{- else if eq .Values.scheduler.mode "only" -}}
kube-system
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "tonnage.leaseName" -}}
{{- if .Values.scheduler.config -}}
{{- dig "leaderElection" "resourceName" "kube-scheduler" .Values.scheduler.config -}}
{{- else if eq .Values.scheduler.mode "only" -}}
kube-scheduler
{{- else -}}
{{- include "tonnage.fullname" . -}}-scheduler
{{- end -}}
{{- end -}}

{{- define "tonnage.electsLeader" -}}
{{- if .Values.scheduler.config -}}
{{- dig "leaderElection" "leaderElect" true .Values.scheduler.config -}}
{{- else -}}
{{- .Values.scheduler.leaderElection.enabled -}}
{{- end -}}
{{- end -}}

{{/* Which of the roles for leases is wanted; nothing where no leader is elected. */}}
{{- define "tonnage.leaseRight" -}}
{{- if eq (include "tonnage.electsLeader" .) "true" -}}
{{- $lease := printf "%s/%s" (include "tonnage.leaseNamespace" .) (include "tonnage.leaseName" .) -}}
{{- if eq $lease "kube-system/kube-scheduler" -}}
only-scheduler
{{- else if eq (include "tonnage.leaseNamespace" .) .Release.Namespace -}}
leader-election
{{- else -}}
{{- fail (printf "scheduler.config names the lease %s: the chart gives rights to leases in its own namespace (%s) and to kube-system/kube-scheduler; set leaderElection.resourceNamespace" $lease .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tonnage.schedulerConfiguration" -}}
{{- $scheduler := .Values.scheduler -}}
{{- if $scheduler.config -}}
{{- toYaml $scheduler.config -}}
{{- else -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: {{ $scheduler.leaderElection.enabled }}
  leaseDuration: {{ $scheduler.leaderElection.leaseDuration }}
  renewDeadline: {{ $scheduler.leaderElection.renewDeadline }}
  retryPeriod: {{ $scheduler.leaderElection.retryPeriod }}
  resourceNamespace: {{ include "tonnage.leaseNamespace" . }}
  resourceName: {{ include "tonnage.leaseName" . }}
profiles:
  - schedulerName: {{ eq $scheduler.mode "only" | ternary "default-scheduler" $scheduler.schedulerName }}
    {{- with $scheduler.plugins }}
    plugins:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    pluginConfig:
      - name: StorageCapacity
        args:
          apiVersion: tonnage.dev/v1alpha1
          kind: StorageCapacityArgs
          reservation: {{ $scheduler.storageCapacity.reservation }}
          reservationTimeoutSeconds: {{ $scheduler.storageCapacity.reservationTimeoutSeconds }}
          poolFit: {{ $scheduler.storageCapacity.poolFit }}
          legacyPools: {{ $scheduler.storageCapacity.legacyPools }}
      {{- with $scheduler.pluginConfig }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}
{{- end -}}

{{/* What pods may name, with commas. */}}
{{- define "tonnage.schedulerNames" -}}
{{- $names := list -}}
{{- if .Values.scheduler.config -}}
{{- range default (list dict) (dig "profiles" list .Values.scheduler.config) -}}
{{- $names = append $names (default "default-scheduler" .schedulerName) -}}
{{- end -}}
{{- else -}}
{{- $names = list (eq .Values.scheduler.mode "only" | ternary "default-scheduler" .Values.scheduler.schedulerName) -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/*
Two schedulers with leases of their own that serve one name would promise the same room twice. Those that meet at
kube-scheduler's lease take turns. Looked up where Helm speaks to a cluster, by who may make roles for all of it.
*/}}
{{- define "tonnage.servesAlone" -}}
{{- if and .Values.rbac.create (ne (include "tonnage.leaseRight" .) "only-scheduler") -}}
{{- $release := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- $names := splitList "," (include "tonnage.schedulerNames" .) -}}
{{- range dig "items" list (lookup "apps/v1" "Deployment" "" "") -}}
{{- $other := printf "%s/%s" .metadata.namespace .metadata.name -}}
{{- $notes := default dict .metadata.annotations -}}
{{- $of := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") (get $notes "meta.helm.sh/release-name") -}}
{{- range splitList "," (get $notes "tonnage.dev/scheduler-names") -}}
{{- if and . (has . $names) (ne $of $release) -}}
{{- fail (printf "the Deployment %s already serves pods with schedulerName: %s; two would promise the same room twice: remove that one, or set scheduler.schedulerName to another name" $other .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
