#!/bin/sh
# Installs Node.js and npm where they are missing, or says in one line how to get them.
set -eu
command -v npm >/dev/null 2>&1 && exit 0
exec sh "$(dirname "$0")/install.sh" npm node "Node.js 18 or newer with npm"
