"""Training sets in which the same dialogues appear under the original schemas and under alternate ones."""
