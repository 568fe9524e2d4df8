"""Rows that a function of the user's yields."""
