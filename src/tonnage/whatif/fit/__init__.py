"""How many more replicas of something fit, where, what stops the next one, and the least that would let it in.

counting   one replica after the other, by the engine, each after those before it are assumed
remedies   what would let the next one in: each is tried before it is told
growth     how many nodes of a kind a workload asks for
"""
