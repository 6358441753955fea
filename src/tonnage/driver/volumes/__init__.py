"""What the services share: volumes moved to where they are wanted, links to them, and what classes ask for."""
