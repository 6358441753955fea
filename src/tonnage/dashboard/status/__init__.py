"""What is wrong with a cluster now, worst first, and how it came to be: rules, the line above them, and history.

    sight.py        what the rules see: rows, objects, leases
    storage_rules.py   rules about volumes, figures and classes
    troubles.py     rules about nodes, programs and pods; all rules, one list, worst first
    overview.py     the line above the list; samples of it for charts, and when each trouble began
    keeper.py       looks at a shown cluster again and again, and shows its status as text

The page, `tonnage top` and `tonnage status` show the same list.
"""
