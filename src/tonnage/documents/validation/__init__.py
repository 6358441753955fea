"""What several kinds share: the rules of metadata, selectors, resources and volume sources, and upstream's internal
form.
"""
