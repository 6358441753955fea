"""ResourceQuotas: how much of a namespace's quota an object uses (`usage`), whom a quota is about (`scopes`), and what
becomes of the quotas when an object comes or changes (`charging`).

The API server charges a quota before it stores an object; the controller counts anew from what there is. Both ask here,
so that they cannot disagree.
"""
