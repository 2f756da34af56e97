#!/bin/sh
# Installs a program with the system's package manager.
# Usage: install.sh DEBIAN_PACKAGE BREW_PACKAGE WHAT_IT_IS
set -eu
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

if command -v brew >/dev/null 2>&1; then
    echo "Installing $2 by brew ..."
    brew install --quiet "$2"
elif command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || command -v sudo >/dev/null 2>&1; }; then
    echo "Installing $1 by apt-get ..."
    $as_root apt-get -qq update
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$1" >/dev/null
else
    echo "$3 is needed. Install it with your system's package manager." >&2
    exit 1
fi
