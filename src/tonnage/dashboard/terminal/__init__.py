"""`tonnage top`: the rows of the dashboard on a terminal. Pages are pure (rows in, lines out); `app.py` shows them."""
