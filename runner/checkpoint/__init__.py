"""The replicated state machine: ownership and admissions in one register, changed by compare-and-set."""
