"""Capacity publishing and volume provisioning for one CSI driver: a stand-in for external-provisioner.

      claims ──► volumes.provisioning ──► CreateVolume ──► PersistentVolume    requests, topology, parameters,
                  │    └────────────────► rescheduling, stuck_pods             data_sources decide
      volumes ──► volumes.deletion ─────► DeleteVolume
      claims ───► volumes.expansion ────► ControllerExpandVolume               expansion_steps decides
                  └─ each of them: refresher ──► capacity.controller ──► CSIStorageCapacity

`program` puts it together, `context` is what its controllers are given, `options` what may be said about it. It does
external-resizer's work too.
"""
