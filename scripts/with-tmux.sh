#!/bin/sh
# Runs a command with another tmux than the system's first on the PATH; without a PROGRAM, with the
# second version that the distribution offers, if any. Usage: with-tmux.sh PROGRAM|"" COMMAND...
set -eu
program=$1
shift
[ -n "$program" ] || program=$(sh "$(dirname "$0")/need-second-tmux.sh" .cache/tmux)
[ -n "$program" ] || exit 0
program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")
if ! version=$("$program" -V 2>&1); then
    echo "$program is no tmux that can be run: $version" >&2
    exit 2
fi
echo "With $version, $program:"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\nexec "%s" "$@"\n' "$program" >"$folder/tmux"
chmod +x "$folder/tmux"
unset TMUX TMUX_PANE
PATH="$folder:$PATH" "$@"
