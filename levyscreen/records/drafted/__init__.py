"""A first mapping of tables that nobody has described: what holds what, guessed from names and numbers."""
