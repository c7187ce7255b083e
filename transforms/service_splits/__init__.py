"""Splits by service or domain: what is tested on is not trained on (leave one domain out)."""
