"""A pod's spec in the form upstream holds it in memory: what its messages show, and what "unchanged" means for a pod.

`internal_form` tells the notation and why this matters. A pod needs one step more than other structs: the host
namespaces, which stand beside `securityContext` on the wire, are part of it in memory.
"""

from __future__ import annotations

from tonnage.documents.validation import internal_form
from tonnage.objects.document import Doc, dig, same

_SHAPES = """
EmptyDirVolumeSource Medium SizeLimit?
GitRepoVolumeSource Repository Revision Directory
KeyToPath Key Path Mode?
SecretVolumeSource SecretName Items[KeyToPath] DefaultMode? Optional?
LocalObjectReference Name
ISCSIVolumeSource TargetPortal IQN Lun:int ISCSIInterface FSType ReadOnly:bool Portals?
 DiscoveryCHAPAuth:bool=chapAuthDiscovery SessionCHAPAuth:bool=chapAuthSession SecretRef?LocalObjectReference
 InitiatorName?
GlusterfsVolumeSource EndpointsName=endpoints Path ReadOnly:bool
PersistentVolumeClaimVolumeSource ClaimName ReadOnly:bool
RBDVolumeSource CephMonitors?=monitors RBDImage=image FSType RBDPool=pool RadosUser=user Keyring
 SecretRef?LocalObjectReference ReadOnly:bool
FlexVolumeSource Driver FSType SecretRef?LocalObjectReference ReadOnly:bool Options?Map
CinderVolumeSource VolumeID FSType ReadOnly:bool SecretRef?LocalObjectReference
CephFSVolumeSource Monitors? Path User SecretFile SecretRef?LocalObjectReference ReadOnly:bool
ObjectFieldSelector APIVersion FieldPath
ResourceFieldSelector ContainerName Resource Divisor
DownwardAPIVolumeFile Path FieldRef?ObjectFieldSelector ResourceFieldRef?ResourceFieldSelector Mode?
DownwardAPIVolumeSource Items[DownwardAPIVolumeFile] DefaultMode?
AzureFileVolumeSource SecretName ShareName ReadOnly:bool
ConfigMapVolumeSource *LocalObjectReference Items[KeyToPath] DefaultMode? Optional?
SecretProjection *LocalObjectReference Items[KeyToPath] Optional?
DownwardAPIProjection Items[DownwardAPIVolumeFile]
ConfigMapProjection *LocalObjectReference Items[KeyToPath] Optional?
ServiceAccountTokenProjection Audience ExpirationSeconds:int Path
ClusterTrustBundleProjection Name? SignerName? LabelSelector?LabelSelector Optional? Path
PodCertificateProjection SignerName KeyType MaxExpirationSeconds? CredentialBundlePath KeyPath CertificateChainPath
 UserAnnotations?Map
VolumeProjection Secret?SecretProjection DownwardAPI?DownwardAPIProjection ConfigMap?ConfigMapProjection
 ServiceAccountToken?ServiceAccountTokenProjection ClusterTrustBundle?ClusterTrustBundleProjection
 PodCertificate?PodCertificateProjection
ProjectedVolumeSource Sources[VolumeProjection] DefaultMode?
ScaleIOVolumeSource Gateway System SecretRef?LocalObjectReference SSLEnabled:bool ProtectionDomain StoragePool
 StorageMode VolumeName FSType ReadOnly:bool
StorageOSVolumeSource VolumeName VolumeNamespace FSType ReadOnly:bool SecretRef?LocalObjectReference
CSIVolumeSource Driver ReadOnly? FSType? VolumeAttributes?Map NodePublishSecretRef?LocalObjectReference
PersistentVolumeClaimTemplate Spec.PersistentVolumeClaimSpec
EphemeralVolumeSource VolumeClaimTemplate?PersistentVolumeClaimTemplate
ImageVolumeSource Reference PullPolicy
VolumeSource HostPath?HostPathVolumeSource EmptyDir?EmptyDirVolumeSource
 GCEPersistentDisk?GCEPersistentDiskVolumeSource AWSElasticBlockStore?AWSElasticBlockStoreVolumeSource
 GitRepo?GitRepoVolumeSource Secret?SecretVolumeSource NFS?NFSVolumeSource ISCSI?ISCSIVolumeSource
 Glusterfs?GlusterfsVolumeSource PersistentVolumeClaim?PersistentVolumeClaimVolumeSource RBD?RBDVolumeSource
 Quobyte?QuobyteVolumeSource FlexVolume?FlexVolumeSource Cinder?CinderVolumeSource CephFS?CephFSVolumeSource
 Flocker?FlockerVolumeSource DownwardAPI?DownwardAPIVolumeSource FC?FCVolumeSource AzureFile?AzureFileVolumeSource
 ConfigMap?ConfigMapVolumeSource VsphereVolume?VsphereVirtualDiskVolumeSource AzureDisk?AzureDiskVolumeSource
 PhotonPersistentDisk?PhotonPersistentDiskVolumeSource Projected?ProjectedVolumeSource
 PortworxVolume?PortworxVolumeSource ScaleIO?ScaleIOVolumeSource StorageOS?StorageOSVolumeSource CSI?CSIVolumeSource
 Ephemeral?EphemeralVolumeSource Image?ImageVolumeSource
Volume Name *VolumeSource
ContainerPort Name HostPort:int ContainerPort:int Protocol HostIP
ConfigMapEnvSource *LocalObjectReference Optional?
SecretEnvSource *LocalObjectReference Optional?
EnvFromSource Prefix ConfigMapRef?ConfigMapEnvSource SecretRef?SecretEnvSource
ConfigMapKeySelector *LocalObjectReference Key Optional?
SecretKeySelector *LocalObjectReference Key Optional?
FileKeySelector VolumeName Path Key Optional?
EnvVarSource FieldRef?ObjectFieldSelector ResourceFieldRef?ResourceFieldSelector ConfigMapKeyRef?ConfigMapKeySelector
 SecretKeyRef?SecretKeySelector FileKeyRef?FileKeySelector
EnvVar Name Value ValueFrom?EnvVarSource
ResourceClaim Name Request
ResourceRequirements Limits?ResourceList Requests?ResourceList Claims[ResourceClaim]
ContainerResizePolicy ResourceName RestartPolicy
ContainerRestartRuleOnExitCodes Operator Values?
ContainerRestartRule Action ExitCodes?ContainerRestartRuleOnExitCodes
VolumeMount Name ReadOnly:bool RecursiveReadOnly? MountPath SubPath MountPropagation? SubPathExpr
VolumeDevice Name DevicePath
ExecAction Command?
HTTPHeader Name Value
HTTPGetAction Path Port:int Host Scheme HTTPHeaders[HTTPHeader]
TCPSocketAction Port:int Host
GRPCAction Port:int Service?
ProbeHandler Exec?ExecAction HTTPGet?HTTPGetAction TCPSocket?TCPSocketAction GRPC?GRPCAction
Probe *ProbeHandler InitialDelaySeconds:int TimeoutSeconds:int PeriodSeconds:int SuccessThreshold:int
 FailureThreshold:int TerminationGracePeriodSeconds?
SleepAction Seconds:int
LifecycleHandler Exec?ExecAction HTTPGet?HTTPGetAction TCPSocket?TCPSocketAction Sleep?SleepAction
Lifecycle PostStart?LifecycleHandler PreStop?LifecycleHandler StopSignal?
Capabilities Add? Drop?
SELinuxOptions User Role Type Level
WindowsSecurityContextOptions GMSACredentialSpecName? GMSACredentialSpec? RunAsUserName? HostProcess?
SeccompProfile Type LocalhostProfile?
AppArmorProfile Type LocalhostProfile?
SecurityContext Capabilities?Capabilities Privileged? SELinuxOptions?SELinuxOptions
 WindowsOptions?WindowsSecurityContextOptions RunAsUser? RunAsGroup? RunAsNonRoot? ReadOnlyRootFilesystem?
 AllowPrivilegeEscalation? ProcMount? SeccompProfile?SeccompProfile AppArmorProfile?AppArmorProfile
Container Name Image Command? Args? WorkingDir Ports[ContainerPort] EnvFrom[EnvFromSource] Env[EnvVar]
 Resources.ResourceRequirements ResizePolicy[ContainerResizePolicy] RestartPolicy?
 RestartPolicyRules[ContainerRestartRule] VolumeMounts[VolumeMount] VolumeDevices[VolumeDevice] LivenessProbe?Probe
 ReadinessProbe?Probe StartupProbe?Probe Lifecycle?Lifecycle TerminationMessagePath TerminationMessagePolicy
 ImagePullPolicy SecurityContext?SecurityContext Stdin:bool StdinOnce:bool TTY:bool
EphemeralContainerCommon Name Image Command? Args? WorkingDir Ports[ContainerPort] EnvFrom[EnvFromSource] Env[EnvVar]
 Resources.ResourceRequirements ResizePolicy[ContainerResizePolicy] RestartPolicy?
 RestartPolicyRules[ContainerRestartRule] VolumeMounts[VolumeMount] VolumeDevices[VolumeDevice] LivenessProbe?Probe
 ReadinessProbe?Probe StartupProbe?Probe Lifecycle?Lifecycle TerminationMessagePath TerminationMessagePolicy
 ImagePullPolicy SecurityContext?SecurityContext Stdin:bool StdinOnce:bool TTY:bool
EphemeralContainer *EphemeralContainerCommon TargetContainerName
Sysctl Name Value
PodSecurityContext HostNetwork:bool HostPID:bool HostIPC:bool ShareProcessNamespace? HostUsers?
 SELinuxOptions?SELinuxOptions WindowsOptions?WindowsSecurityContextOptions RunAsUser? RunAsGroup? RunAsNonRoot?
 SupplementalGroups? SupplementalGroupsPolicy? FSGroup? FSGroupChangePolicy? Sysctls[Sysctl]
 SeccompProfile?SeccompProfile AppArmorProfile?AppArmorProfile SELinuxChangePolicy?
PreferredSchedulingTerm Weight:int Preference.NodeSelectorTerm
NodeAffinity RequiredDuringSchedulingIgnoredDuringExecution?NodeSelector
 PreferredDuringSchedulingIgnoredDuringExecution[PreferredSchedulingTerm]
PodAffinityTerm LabelSelector?LabelSelector Namespaces? TopologyKey NamespaceSelector?LabelSelector MatchLabelKeys?
 MismatchLabelKeys?
WeightedPodAffinityTerm Weight:int PodAffinityTerm.PodAffinityTerm
PodAffinity RequiredDuringSchedulingIgnoredDuringExecution[PodAffinityTerm]
 PreferredDuringSchedulingIgnoredDuringExecution[WeightedPodAffinityTerm]
PodAntiAffinity RequiredDuringSchedulingIgnoredDuringExecution[PodAffinityTerm]
 PreferredDuringSchedulingIgnoredDuringExecution[WeightedPodAffinityTerm]
Affinity NodeAffinity?NodeAffinity PodAffinity?PodAffinity PodAntiAffinity?PodAntiAffinity
Toleration Key Operator Value Effect TolerationSeconds?
HostAlias IP Hostnames?
PodDNSConfigOption Name Value?
PodDNSConfig Nameservers? Searches? Options[PodDNSConfigOption]
PodReadinessGate ConditionType
TopologySpreadConstraint MaxSkew:int TopologyKey WhenUnsatisfiable LabelSelector?LabelSelector MinDomains?
 NodeAffinityPolicy? NodeTaintsPolicy? MatchLabelKeys?
PodOS Name
PodSchedulingGate Name
PodResourceClaim Name ResourceClaimName? ResourceClaimTemplateName?
PodSchedulingGroup PodGroupName?
PodSpec Volumes[Volume] InitContainers[Container] Containers[Container] EphemeralContainers[EphemeralContainer]
 RestartPolicy TerminationGracePeriodSeconds? ActiveDeadlineSeconds? DNSPolicy NodeSelector?Map ServiceAccountName
 AutomountServiceAccountToken? NodeName SecurityContext?PodSecurityContext ImagePullSecrets[LocalObjectReference]
 Hostname Subdomain SetHostnameAsFQDN? Affinity?Affinity SchedulerName Tolerations[Toleration] HostAliases[HostAlias]
 PriorityClassName Priority? PreemptionPolicy? DNSConfig?PodDNSConfig ReadinessGates[PodReadinessGate]
 RuntimeClassName? Overhead?ResourceList EnableServiceLinks? TopologySpreadConstraints[TopologySpreadConstraint]
 OS?PodOS SchedulingGates[PodSchedulingGate] ResourceClaims[PodResourceClaim] Resources?ResourceRequirements
 HostnameOverride? SchedulingGroup?PodSchedulingGroup
"""

# Go writes these three so in JSON, for the sake of browsers.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


def spec_unchanged(new: Doc, old: Doc) -> bool:
    """Are two specs the same to upstream, where an absent field and its zero are one?"""
    if new == old:  # nearly always, and a thousand times cheaper to see
        return True
    if not internal_form.unchanged("PodSpec", _gathered(new), _gathered(old)):
        return False
    return same(_template_metadata(new), _template_metadata(old))


def spec_diff(old: Doc, new: Doc) -> str:
    """The difference of two specs as upstream prints it: a unified diff by the names of its internal types."""
    return internal_form.diff("PodSpec", _gathered(old), _gathered(new)).translate(_ESCAPED)


def shown(shape: str, part: Doc) -> Doc:
    """A part of a pod's spec, of upstream's type `shape`, as its messages print it."""
    printed: Doc = internal_form.internal(shape, part)
    return printed


def _gathered(spec: Doc) -> Doc:
    host = {field: spec[field] for field in _HOST_FIELDS if field in spec}
    return {**spec, "securityContext": {**spec.get("securityContext", {}), **host}}


def _template_metadata(spec: Doc) -> list[Doc]:
    """Labels and annotations of ephemeral claims: upstream embeds them in the template, which no shape can say."""
    volumes = spec.get("volumes", [])
    return [dig(volume, "ephemeral", "volumeClaimTemplate", "metadata") or {} for volume in volumes]


def _learn(text: str) -> None:
    """Add shapes to those of `internal_form`; what is embedded must have been told before."""
    known = internal_form._shapes()
    for line in text.strip().replace("\n ", " ").splitlines():
        name, *words = line.split()
        known[name] = [
            field
            for word in words
            for field in (known[word[1:]] if word.startswith("*") else [internal_form._field(word)])
        ]


_learn(_SHAPES)
