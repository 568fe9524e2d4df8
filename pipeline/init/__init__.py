"""`headrace init`: a config for data that nobody has described yet."""
