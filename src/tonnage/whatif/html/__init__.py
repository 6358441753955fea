"""Answers as one HTML file: `-o html`.

A page is made only from an answer's JSON document, so it shows what scripts read. `page.py` is the frame and escapes,
`charts.py` and `capacity_map.py` draw, `pages.py` has the page of each answer.
"""
