"""What models of whole systems share: their data, and predictions of states and responses."""
