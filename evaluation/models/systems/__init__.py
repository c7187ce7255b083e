"""Models of whole systems, with shared data, and predictions of states and responses."""
