"""One module per command, with its flags, checks and ``run(argv)``."""
