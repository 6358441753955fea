"""What the command line says about itself: which commands there are, in which group, with which examples."""
