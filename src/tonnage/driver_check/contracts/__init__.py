"""The contracts, judged from recorded answers. Pure: nothing here speaks to a driver."""
