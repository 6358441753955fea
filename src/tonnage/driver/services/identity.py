"""The Identity service: who is there, and what can it do."""

from __future__ import annotations

from google.protobuf.wrappers_pb2 import BoolValue

from tonnage import __version__
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.driver.driver import Driver

_Service = csi.PluginCapability.Service
_Expansion = csi.PluginCapability.VolumeExpansion


class IdentityService(rpc.IdentityServicer):
    """The same on every socket of a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: object) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._driver.settings.name, vendor_version=__version__)

    async def GetPluginCapabilities(
        self, request: csi.GetPluginCapabilitiesRequest, context: object
    ) -> csi.GetPluginCapabilitiesResponse:
        services = (_Service.CONTROLLER_SERVICE, _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[
                *(csi.PluginCapability(service=_Service(type=service)) for service in services),
                csi.PluginCapability(volume_expansion=_Expansion(type=_Expansion.ONLINE)),
            ]
        )

    async def Probe(self, request: csi.ProbeRequest, context: object) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))
