"""Objects of S3 (Amazon's, MinIO's, anybody's) and Google Cloud Storage, through pyarrow's filesystems.

Nothing here connects to anything before it is first used: a process that forks must not have used S3 before.
"""
