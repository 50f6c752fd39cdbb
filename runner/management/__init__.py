"""What operators and recovery staff ask for, translated to the same ops that everything else becomes."""
