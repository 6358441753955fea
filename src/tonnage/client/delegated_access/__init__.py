"""Who may read a program's own pages, asked of the API server: delegated authentication and authorisation."""
