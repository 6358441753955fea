"""Rules that several kinds share: metadata, selectors, resources, volume sources, and upstream's internal form."""
