#!/bin/sh
# Installs tmux where it is missing, or says in one line how to get it.
set -eu
command -v tmux >/dev/null 2>&1 && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

if command -v brew >/dev/null 2>&1; then
    echo "Installing tmux by brew ..."
    brew install --quiet tmux
elif command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || command -v sudo >/dev/null 2>&1; }; then
    echo "Installing tmux by apt-get ..."
    $as_root apt-get -qq update
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y tmux >/dev/null
else
    echo "tmux 3.2 or newer is needed. Install it with your system's package manager." >&2
    exit 1
fi
