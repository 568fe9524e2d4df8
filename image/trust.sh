#!/bin/sh
# Makes pip, uv and apt trust the authorities in ca.txt beside the public ones, if any are in it; sourced by whatever
# downloads while the image is built. Of what it writes only /opt/ca can get into the image.
trusted="${TRUSTED:-/opt/ca}"
apt="${APT_CONFIGURATION:-/etc/apt/apt.conf.d}"
mkdir -p "$trusted"
if test -s ca.txt; then
    SSL_CERT_FILE="$trusted/bundle.pem"
    PIP_CERT="$SSL_CERT_FILE"
    export SSL_CERT_FILE PIP_CERT
    cat "$(python -c 'from pip._vendor import certifi; print(certifi.where())')" ca.txt > "$SSL_CERT_FILE"
    touch --date "@$SOURCE_DATE_EPOCH" "$SSL_CERT_FILE"
    if test -d "$apt"; then
        printf 'Acquire::https::CAInfo "%s";\n' "$SSL_CERT_FILE" > "$apt/99-headrace-ca"
    fi
fi
