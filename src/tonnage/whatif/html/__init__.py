"""Answers as one HTML file: `-o html`.

A page is made of an answer's JSON document and of nothing else, so what is drawn is what scripts read. `page.py` is the
frame and escapes, `charts.py` and `capacity_map.py` draw, `pages.py` has the page of each answer.
"""
