"""DAMD: belief span, action span and response, each by a decoder of its own (Zhang, Ou and Yu 2020)."""
