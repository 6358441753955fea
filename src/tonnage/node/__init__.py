"""The part of a kubelet that storage needs, for many nodes in one process. Nothing runs in a container.

`program` has the shared informers and one `kubelet` a node: its drivers, its own objects (`registration`), attach
limits (KEP-4876), volumes (`mounts`) and pods. A pod whose volumes are mounted is Running until it is deleted.
"""
