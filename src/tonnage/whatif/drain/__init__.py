"""What a drain would do: nodes are drained in a cluster on virtual time, and the result is read from its objects.

rehearsal.py   one cluster whose nodes are drained, together or one after the other
outcome.py     the result: pods that moved or are stuck, data that stays behind
preview.py     the whole answer: best order of nodes, whether one more node may fail meanwhile, and the table
"""
