"""Files wherever they are: on this machine, in S3 (Amazon's, MinIO's or any other) or in Google Cloud Storage.

from headrace.common.storage.files import open_file, stat   # one way to read them all
from headrace.common.storage.paths import resolve           # patterns to paths

Nothing here connects before it is first used: a process that forks must not have used S3.
"""
