"""Systems behind an endpoint: language models that are prompted over a chat completions API."""
