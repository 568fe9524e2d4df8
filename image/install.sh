#!/bin/sh
# Installs the locked packages that a pod needs into $UV_PROJECT_ENVIRONMENT; run by the Dockerfile. $1: cpu or gpu.
set -eu

. ./trust.sh

# The words of a list, without its comments.
listed() {
    sed -e 's/[[:space:]]*#.*//' -e '/^$/d' "$1"
}

variant="$1"
build="$PWD"
set -- --group "image-$variant" --extra sql --extra tfds
if test "$variant" = cpu; then
    set -- "$@" --no-install-package tensorflow # tensorflow-cpu stands in for it, without the kernels for GPUs
fi
for package in $(listed left-out-packages.txt); do
    set -- "$@" --no-install-package "$package"
done
export CFLAGS=-g0 LDFLAGS=-s # what is compiled here has no word of the folder it was compiled in: the same each time
uv sync --no-cache --frozen --no-install-project --no-default-groups "$@"

cd "$UV_PROJECT_ENVIRONMENT"/lib/python3.*/site-packages
for found in $(listed "$build/left-out-files.txt"); do
    rm -r "$found" # a pattern that no longer finds anything ends the build
done
printf '%s\n' /opt/added /opt/code > headrace-code.pth # last in the search, as the working folder is in a local run
python "$build/sbom.py" . > "$UV_PROJECT_ENVIRONMENT/sbom.cdx.json"
# Nothing can be compiled later. Some packages carry templates that are no Python, so this never ends without an error.
sh "$build/compile.sh" "$UV_PROJECT_ENVIRONMENT" > /dev/null || true
PYTHONDONTWRITEBYTECODE=1 "$UV_PROJECT_ENVIRONMENT"/bin/python -c 'import tfx'
