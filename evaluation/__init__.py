"""The evaluation stage: metrics (which import no torch), models and plots."""
