"""The enhancements' stories on a running cluster: `tonnage demo` runs them, and end-to-end tests check them.

`story_runner` applies and shows objects, explains decisions, waits with a limit and checks claims. `suites` has the
stories, also without their gates, and which of them run on which cluster.
"""
