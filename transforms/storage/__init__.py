"""Files of a run: written whole or not at all, on disk or in a bucket; compressed input; checkpoints."""
