"""Training sets with the same dialogues under the original schemas and under alternate ones."""
