"""Cache keys, and why a component ran or was reused: `headrace explain-cache`."""
