"""Dialogue state tracking: the official SGD scoring (Rastogi et al. 2020, section 5.2), and SGD-X's sensitivity."""
