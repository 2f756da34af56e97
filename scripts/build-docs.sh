#!/bin/sh
# Builds the site of the documentation, and checks all its links. Without the network, as far as the
# system lets us shut it out. Usage: build-docs.sh PYTHON
set -eu
python=$1
# What reaches its end some day is said at every build.
export NO_MKDOCS_2_WARNING=1
alone=""
for way in "unshare -n" "unshare -rn"; do
    if $way true 2>/dev/null; then
        alone=$way
        break
    fi
done
$alone "$python" -m mkdocs build --quiet --strict --clean
"$python" scripts/check_site.py site
