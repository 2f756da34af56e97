#!/bin/sh
# Installs tmux where it is missing, or says in one line how to get it.
set -eu
command -v tmux >/dev/null 2>&1 && exit 0
exec sh "$(dirname "$0")/install.sh" tmux tmux "tmux 3.2 or newer"
