"""The pipelines that a person runs: one module each, with its options, sources, sinks and ``run(argv)``."""
