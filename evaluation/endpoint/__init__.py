"""Systems behind an endpoint: language models that are asked for dialogue states over a chat completions API."""
