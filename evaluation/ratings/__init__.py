"""Human judgements of generated utterances: which are judged, what the judgements say, and how far a metric agrees."""
