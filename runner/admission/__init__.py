"""What workers may ask of the owner: polls, permits, reports, fences (WIRE: Admission listener)."""
