"""Human judgements of generated utterances: sampling, results, and agreement with a metric."""
