"""Metrics, which import no torch; models; and plots."""
