"""The enhancements' stories, told on a running cluster: what `tonnage demo` plays and end-to-end tests hold true.

`stage` is where they are played: objects applied and shown, decisions explained, waits with an end, claims checked.
One module tells the stories of one enhancement: `pools` (KEP-5925), `scoring` (KEP-4049), `nominations` (KEP-5278),
`attach_limits` (KEP-4876); `without` tells what happens with their gates off. `acts` says on which cluster each is
played.
"""
