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
