"""The enhancements' stories on a running cluster: what `tonnage demo` runs and end-to-end tests hold true.

`story_runner` runs them: objects applied and shown, decisions explained, waits with an end, claims checked.
`enhancements` tells the stories, also what happens without their gates. `suites` says on which cluster each story is
run.
"""
