"""Validity of the user turns of perturbed sets: kept labels and values, and human judgements."""
