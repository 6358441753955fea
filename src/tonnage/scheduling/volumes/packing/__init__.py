"""Claims into pools: all that the rest of `volumes` asks about bytes, in one place. Nothing here knows Kubernetes.

A capacity object is a row of pools, a group is the claims of one StorageClass that must share it; both are bytes in
descending order. Each question is answered for one object in plain numbers (`…_one`) and for all objects at once.

    can the claims be packed, all at once?                     pool_fits.py
    and if the driver picks the pools, in whatever order?      pool_grades.py, also beside claims that are promised
    by a rule of its own that is known?                        pool_policies.py
    and claims are asked for one after the other?              claim_orders.py

No yes for claims that cannot be placed. A no for claims that can leaves a pod waiting, so that the answers are exact as
far as the searches go; where they end stands with each function.
"""
