"""How many more replicas of something fit, where, what stops the next one, and the least that would let it in.

counting   one replica after the other, each after those before it run
           and how many nodes of a kind a workload asks for
remedies   what would let the next one in: each is tried before it is told
"""

from typing import Final

MOST: Final = 10_000
"""Where counting ends unless somebody asks for more: nobody scales that far by accident."""
