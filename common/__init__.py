"""The bottom floor: errors, credentials, durable files, checksums, locks, names. Standard library only at import."""
