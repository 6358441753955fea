"""The dashboard: a cluster's storage as people see it, on a web page (`server/`, `pages/`) and in a terminal.

                    informers, the scheduler's pages            a replay or simulate file
                                 │                                        │
        follow/   ───────────────┴───────► model/ ◄───────────────────────┘  questions/
                                             │  rows, settled from objects
                                           wire/    collections of rows, and what of them changed
                                             │
                       ┌─────────────────────┴────────────────┐
                    server/  HTTP, server-sent events      terminal/  `tonnage top`
                       │
                    pages/   plain ES modules in the browser

Inside, rows import downwards: wire, model, then follow and questions, then server and terminal. Nothing here writes to
a cluster, but for faults of an embedded one.
"""
