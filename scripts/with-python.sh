#!/bin/sh
# Runs Python with the pinned packages in a virtual environment of its own: the PYTHON that is named,
# else the newest that is there and newer than 3.11. Usage: with-python.sh PYTHON|"" ARGUMENT...
set -eu
python=$1
shift
if [ -z "$python" ]; then
    for minor in 14 13 12; do
        if "python3.$minor" -c "" 2>/dev/null; then
            python=python3.$minor
            break
        fi
    done
fi
if [ -z "$python" ]; then
    echo "No newer Python here: nothing more to try." >&2
    exit 0
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=.cache/venv-$version
sh "$(dirname "$0")/make-venv.sh" "$python" "$venv"
echo "With Python $version:"
"$venv/bin/python" "$@"
