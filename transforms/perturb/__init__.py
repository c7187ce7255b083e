"""Utterances changed in places, with everything that points into them."""
