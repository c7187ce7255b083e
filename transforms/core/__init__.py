"""What all runs share: counts, dead letters, error handling around user code, plug-ins, progress, seeds."""
