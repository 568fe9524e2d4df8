"""Why a component ran, or why it was taken from what an earlier run made: `headrace explain-cache`."""
