"""Baseline models of the papers, trained and run here. Only modules below may import torch when they are imported."""
