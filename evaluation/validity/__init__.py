"""Whether the user turns of perturbed sets are valid: labels and values kept, and what people say of them."""
