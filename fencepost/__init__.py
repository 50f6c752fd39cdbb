"""The command line, the configuration files and the composition roots; the only package that imports all three others."""
