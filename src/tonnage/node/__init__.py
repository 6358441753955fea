"""The storage part of a kubelet, for many nodes in one process. It runs no containers.

`program` shares the informers and starts one `kubelet` per node: its CSI drivers, its own objects (`registration`),
attach limits (KEP-4876), volumes (`mounts`) and pods. A pod with mounted volumes is Running until it is deleted.
"""
