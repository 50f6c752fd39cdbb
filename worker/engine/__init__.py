"""What runs permitted work: one contract (`base`), and the engines that keep it."""
