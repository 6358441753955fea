"""Reports as one HTML file, `-o html`: `html_page.py` writes what a command shows; `charts.py` and `capacity_map.py`
draw.
"""
