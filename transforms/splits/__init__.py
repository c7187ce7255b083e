"""Splits of a corpus: small training sets for each domain, and domains or services that are missing from training."""
