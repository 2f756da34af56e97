#!/bin/sh
# Fetches another version of tmux than the system's, where the distribution offers one (Debian's
# backports), into FOLDER and nowhere else, and prints its path. Usage: need-second-tmux.sh FOLDER
# Prints nothing on standard output, and says why on standard error, if there is none to be had.
set -eu
folder=$1
program=$folder/tmux

none() {
    echo "No second tmux: $1." >&2
    exit 0
}

fetch() { # PACKAGE...: downloads into the working folder
    (cd "$work" && apt download "$@")
}

apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@" >&2
}

if [ ! -x "$program" ]; then
    for tool in apt-get dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || none "this system has no $tool"
    done
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # The mirror is the one that the system itself uses.
    mirror=$(apt-get indextargets 'Created-By: Packages' --format '$(CODENAME) $(REPO_URI)' 2>/dev/null |
        awk -v codename="$codename" '$1 == codename { print $2; exit }')
    [ -n "$mirror" ] || none "apt-get names no repository of ${codename:-this system}"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    signed=""
    [ ! -f "$keyring" ] || signed="[signed-by=$keyring] "
    for suite in "$codename" "$codename-backports"; do
        echo "deb ${signed}${mirror} $suite main" >>"$work/sources.list"
    done
    echo "Fetching tmux of $codename-backports ..." >&2
    apt update && fetch "tmux/$codename-backports" || none "$codename-backports has none to be read"
    for package in $(dpkg-deb --field "$work"/tmux_*.deb Depends | sed 's/([^)]*)//g; s/,/ /g'); do
        dpkg-query --show "$package" >/dev/null 2>&1 || fetch "$package" || none "no $package"
    done
    rm -rf "$folder"
    mkdir -p "$folder"
    for package in "$work"/*.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    cat >"$program" <<'END'
#!/bin/sh
# tmux with the libraries beside it, and without a trace of them in its environment.
here=$(cd "$(dirname "$0")" && pwd)
libraries=$(printf '%s:' "$here"/usr/lib/*/)
for loader in /lib/ld-linux-*.so.* /lib64/ld-linux-*.so.*; do
    [ ! -x "$loader" ] || exec "$loader" --argv0 tmux --library-path "$libraries" "$here/usr/bin/tmux" "$@"
done
exec "$here/usr/bin/tmux" "$@"
END
    chmod +x "$program"
fi
version=$("$program" -V 2>&1) || none "what was fetched does not run here: $version"
[ "$version" != "$(tmux -V 2>/dev/null || true)" ] || none "there is only $version"
echo "$program"
