"""Packing claims into pools. Nothing here knows Kubernetes.

A capacity object is a row of pools; a group is the claims of one StorageClass that must share it. Both are bytes,
descending. Functions named `…_one` judge one object with plain integers, the others all objects with arrays.

    can the claims be packed, all at once?                     pool_fits.py
    whatever pools the driver chooses, in any order?           pool_grades.py, also beside promised claims
    with a known policy, or sent one after the other?          claim_orders.py, a search by pool_policies.py

A yes is never wrong. A wrong no would leave a pod waiting, so answers are exact up to the search limits, which stand at
each function.
"""
