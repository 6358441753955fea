"""The enhancements' stories on a running cluster: what `tonnage demo` runs and end-to-end tests hold true.

`story_runner` runs them: objects applied and shown, decisions explained, waits with an end, claims checked.
One module tells the stories of one enhancement: `pools` (KEP-5925), `scoring` (KEP-4049), `nominations` (KEP-5278),
`attach_limits` (KEP-4876); `gates_off` shows what happens without their gates. `suites` says on which cluster
each story is run.
"""
