"""Does a CSI driver keep the contracts that KEP-5925 and KEP-4876 rest on? Asked over its socket, as csi-sanity does.

    results        every check by a name that stays, and what was found: passed, failed, skipped
    settings       what is asked of which driver
    contracts      judges recorded answers: pure
    conversation   the calls; what they made is noted, so that it goes again whatever happens
    checks         the steps of each part: capacity, volumes, limits, rebuilding
    examination    all of them in order

Nothing is touched that was not made here: volumes have names of our own with a random part.
"""
