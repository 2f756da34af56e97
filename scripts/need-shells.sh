#!/bin/sh
# Installs zsh and fish where they are missing and can be had; without them some tests are skipped.
set -eu
for shell in zsh fish; do
    command -v "$shell" >/dev/null 2>&1 && continue
    sh "$(dirname "$0")/install.sh" "$shell" "$shell" "$shell, for the tests of completion," || true
done
