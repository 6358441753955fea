"""Which pods would have to go for another one to fit, and where that costs least."""
