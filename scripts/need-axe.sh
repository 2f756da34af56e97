#!/bin/sh
# Installs axe-core, which looks for what keeps people from using a page, in the pinned version.
# Usage: need-axe.sh FOLDER
set -eu
folder=$1
manifest=$(dirname "$0")/../tests/web
if ! cmp -s "$manifest/package-lock.json" "$folder/.installed"; then
    echo "Installing axe-core by npm ..."
    mkdir -p "$folder"
    cp "$manifest/package.json" "$manifest/package-lock.json" "$folder"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
    cp "$manifest/package-lock.json" "$folder/.installed"
fi
