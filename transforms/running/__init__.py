"""What all runs have in common: counts, dead letters, the fence around user code, plug-ins, progress, seeds."""
