#!/bin/sh
# Installs what requirements.txt asks for beyond the locked packages, all of which stay as they are, into the folder $1;
# run by the Dockerfile.
set -eu

. ./trust.sh
mkdir -p "$1"
uv pip freeze --quiet --python "$UV_PROJECT_ENVIRONMENT" > locked.txt
uv pip compile --quiet --no-header --no-annotate --constraint locked.txt --output-file wanted.txt requirements.txt
if grep --line-regexp --fixed-strings --invert-match --file locked.txt wanted.txt > added.txt; then
    uv pip install --no-cache --no-deps --target "$1" --requirement added.txt
    rm -f "$1/.lock"
fi
sh compile.sh "$1" > /dev/null || true # as in install.sh
