"""Tells the receivers of `notify:` how a run ended: once each, with retries, and without a secret or a row of data."""
