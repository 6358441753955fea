"""`tonnage top`: the dashboard's rows in a terminal. Pages are pure (rows in, lines out); `app.py` shows them."""
