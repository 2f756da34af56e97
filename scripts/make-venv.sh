#!/bin/sh
# Makes the virtual environment with the pinned packages. Usage: make-venv.sh PYTHON FOLDER [EXTRAS]
set -eu
python=$1
venv=$2
extras=${3:-dev}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Python 3.11 or newer is needed, but '$python' is $("$python" -V 2>&1 || echo missing)." >&2
    echo "Name another one: make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "Making a virtual environment in $venv ..."
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "'$python -m venv' failed. On Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
fi
echo "Installing cao and the packages that it and its tests need into $venv: a minute or two, from the network ..."
said=$(mktemp)
trap 'rm -f "$said"' EXIT
trap 'exit 130' INT TERM
code=0
"$venv/bin/python" -m pip install --disable-pip-version-check \
    --constraint constraints.txt --editable ".[$extras]" >"$said" 2>&1 || code=$?
if [ "$code" -ne 0 ]; then
    cat "$said" >&2
    echo "What is above is all that pip said; it ended with $code." >&2
    exit "$code"
fi
