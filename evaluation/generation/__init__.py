"""Utterances generated from dialogue acts: SGSAcc by entailment (Chen, Lin and Byrne 2023), slot errors, BLEU."""
