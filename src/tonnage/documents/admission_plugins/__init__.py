"""What admission plugins with much to say do, one file a plugin, pure. `documents/admission.py` calls them."""
