"""Databases by SQLAlchemy: connections, and values as columns."""
