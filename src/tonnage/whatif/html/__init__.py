"""Answers as one HTML file: `-o html`.

A page is made only from an answer's JSON document, so it shows what scripts read. `charts.py` is the frame and
draws, like `capacity_map.py`; `pages.py` has the page of each answer.
"""
