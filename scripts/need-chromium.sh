#!/bin/sh
# Installs Chromium where no browser of its kind is there, or says in one line how to get one.
# CHROMIUM=/path/to/program names another one.
set -eu
for name in "${CHROMIUM:-chromium}" chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
exec sh "$(dirname "$0")/install.sh" chromium chromium "Chromium, or CHROMIUM=/path/to/a/browser/like/it,"
