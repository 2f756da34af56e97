#!/bin/sh
# Installs bubblewrap where it is missing and can be had; without it some tests are skipped.
set -eu
[ "$(uname)" = Linux ] || exit 0
command -v bwrap >/dev/null 2>&1 && exit 0
sh "$(dirname "$0")/install.sh" bubblewrap bubblewrap "bubblewrap, for the tests of sandboxes," || true
