"""Files of a run, written atomically on disk or in a bucket; compressed input; checkpoints."""
