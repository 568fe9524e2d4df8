"""BigQuery: Google's clients, with errors in the user's words."""
