"""Authentication: certificates and tokens, and the users they prove; `authenticator` is the way in."""
