"""Sentences made from dialogue acts: semantic accuracy by entailment (Chen, Lin and Byrne 2023), slot errors, BLEU."""
