"""Answers as one HTML file: `-o html` of simulate, fit, drain-preview and doctor.

A page is made of an answer's JSON document and of nothing else, so what is drawn is what scripts read. `page.py`
is the frame and escapes, `charts.py` and `capacity_map.py` draw, and each command has a module of its own.
"""
