"""Capacity publishing and volume provisioning for one CSI driver: a stand-in for external-provisioner.

      claims ──► provisioning ──► CreateVolume            ──► PersistentVolume        requests, topology, parameters,
                  │    └────────► rescheduling, stuck_pods                            data_sources, outcomes decide
      volumes ──► deletion ─────► DeleteVolume
      claims ──► expansion ─────► ControllerExpandVolume                              expansion_steps decides
                  └─ each of them: refresher ──► capacity_controller ──► CSIStorageCapacity

`program` puts it together, `options` is what may be said about it. It does external-resizer's work too.
"""
