"""How a permitted attempt is launched once and observed to its end (see DESIGN.md beside this file)."""
