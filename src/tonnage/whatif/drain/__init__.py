"""What a drain would do: the nodes are drained in a cluster on virtual time, and what happened is read off.

rehearsal.py   one cluster whose nodes are drained, together or one after the other
outcome.py     what came of it: who moved where, who is stuck, whose data stays behind
preview.py     all of it together: the best order of nodes, whether one more node may fail meanwhile, and the table
"""
