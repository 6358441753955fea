"""Does a CSI driver keep the contracts that KEP-5925 and KEP-4876 rest on? Asked over its socket, as csi-sanity does.

    catalogue      every check by a name that stays, with what to do when it fails
    verdicts       what was found: passed, failed, skipped
    contracts/     judging recorded answers: pure
    settings       what is asked of which driver
    conversation   the calls, each answer or refusal recorded
    made           what was made, so that it goes again whatever happens
    checks/        the steps of each part: capacity, volumes, limits, rebuilding
    examination    all of them in order

Nothing is touched that was not made here: volumes have names of our own with a random part.
"""
