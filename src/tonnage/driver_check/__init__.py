"""Does a CSI driver keep the contracts on which KEP-5925 and KEP-4876 rest? Asked over its socket, as csi-sanity does.

    results        every check by a stable name, and its verdict: passed, failed, skipped
    settings       what is asked of which driver
    contracts      judges recorded answers: pure
    conversation   the calls; it notes what they make, so that it is undone whatever happens
    checks         the steps of every part, in order: capacity, volumes, limits, rebuilding
    measuring      which pool policy and which size rule explain what was seen, and the volumes that show it

It touches nothing that it did not make: its volumes have names with a random part.
"""
