#!/bin/sh
# Compiles the modules of a folder, and gives all its files one time; run by the Dockerfile. $1: the folder.
set -eu

status=0
python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$1" || status=$?
find "$1" -print0 | xargs -0 touch --no-dereference --date "@$SOURCE_DATE_EPOCH"
exit "$status"
