"""What a drain would do: the nodes are drained in a cluster on virtual time, and what happened is read off.

rehearsal.py   one cluster whose nodes are drained, together or one after the other
places.py      who is where before a drain, and data that it does not move: volumes of one node, emptyDir, hostPath
lineages.py    who came after whom
outcome.py     what came of it: who moved where, who is stuck, whose data stays behind
orders.py      one after the other: the order that does the least harm
one_more.py    whether the cluster holds if one more node fails meanwhile
preview.py     all of it together, as far as it got
report.py      the table
"""
