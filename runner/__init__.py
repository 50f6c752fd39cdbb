"""What is decided: checkpoint, calendar, the serialized loop and its listeners (see DESIGN.md beside this file)."""
