"""The framework of perturbations."""
