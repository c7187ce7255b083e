"""What simulators of dialogues share: patterns filled with values, and turns of the SGD layout with their frames."""
