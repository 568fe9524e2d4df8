"""Databases, through SQLAlchemy."""
