"""The dashboard: a cluster's storage as people see it, on a web page (`server/`, `pages/`) and in a terminal.

    follow/ (a live cluster: informers, the scheduler's pages)      questions/ (why, what if, replays of files)
        └───────────────────────► model/ ◄───────────────────────────────┘
                                    │  rows made from objects
                                  wire.py    collections of rows and their changes
                   ┌────────────────┴───────────────┐
                server/  HTTP, server-sent events    terminal/  `tonnage top`
                pages/   plain ES modules in the browser

Nothing here writes to a cluster, except faults of an embedded one.
"""
