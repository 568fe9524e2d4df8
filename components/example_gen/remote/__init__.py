"""Objects in S3 (Amazon's, MinIO's or any other) and Google Cloud Storage, through pyarrow's filesystems.

Nothing here connects before it is first used: a process that forks must not have used S3.
"""
