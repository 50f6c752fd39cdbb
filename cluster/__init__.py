"""How a decision becomes durable on a majority of voters; knows nothing of schedules (see DESIGN.md beside this file)."""
