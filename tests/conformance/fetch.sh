#!/bin/bash
# fetch.sh CACHE: prints the directory in CACHE with Redis's own tests, those of Debian's source package of redis
# 7.0.15. What is there already is used if its checksum, which is in its name beside the package's version, holds;
# else it is fetched by apt-get, from the mirrors that the machine's packages come from, with lists and downloads in a
# directory of its own: neither root nor a deb-src line is needed, and the system's apt is left as it is.
#
# Exit code 3: no mirror has them. 4: a program is missing.
set -euo pipefail
CACHE=${1:?usage: fetch.sh CACHE}
WANTED=7.0.15

no_mirror() { echo "no mirror of Debian with the source package of redis $WANTED: $*" >&2; exit 3; }
checksum() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16); }

mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
for dir in "$CACHE/redis-$WANTED"*; do
  if [ -d "$dir" ] && [ "${dir##*+}" = "$(checksum "$dir")" ]; then
    echo "$dir"
    exit 0
  fi
done

command -v apt-get >/dev/null || no_mirror "apt-get is not installed"
command -v dpkg-source >/dev/null || { echo "dpkg-source (package dpkg-dev) is not installed" >&2; exit 4; }
work=$(mktemp -d "$CACHE/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/source"

# The machine's mirrors, asked for source packages. Those that are not of Debian may fail; what counts is whether one
# has the package.
LIST="" PARTS=""
eval "$(apt-config shell LIST Dir::Etc::sourcelist/f PARTS Dir::Etc::sourceparts/d)"
mkdir "$work/sources.list.d"
for file in "$LIST" "$PARTS"/*.list "$PARTS"/*.sources; do
  [ ! -f "$file" ] || sed -E 's/^(Types:).*/\1 deb-src/; s/^[[:space:]]*deb-src[[:space:]].*//; s/^[[:space:]]*deb([[:space:]])/deb-src\1/' \
    "$file" >"$work/sources.list.d/$(basename "$file")"
done
apt=(apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources.list.d"
  -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Dir::Cache::Archives="$work/archives"
  -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
timeout 300 "${apt[@]}" update >"$work/log" 2>&1 || true
why=$(grep -m1 '^[EW]:' "$work/log" || true)
# One line a file: 'URI' name size checksum.
uris=$("${apt[@]}" source --print-uris redis 2>"$work/log" | grep "^'") || no_mirror "${why:-$(tail -n1 "$work/log")}"
dsc=$(awk '$2 ~ /\.dsc$/ {print $2}' <<<"$uris")
case $dsc in
  "redis_$WANTED-"*) ;;
  *) no_mirror "the mirrors have $dsc" ;;
esac
(cd "$work/source" && timeout 300 "${apt[@]}" source --download-only redis) >"$work/log" 2>&1 || no_mirror "$(tail -n1 "$work/log")"

# apt has checked the files against the mirror's signed index.
dpkg-source --no-check -x "$work/source/$dsc" "$work/tree" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mkdir -p "$work/kept/tests"
cp "$work/tree/COPYING" "$work/tree/runtest" "$work/kept/"
for part in assets helpers support unit integration test_helper.tcl; do
  cp -r "$work/tree/tests/$part" "$work/kept/tests/"
done
version=${dsc#redis_}
dir="$CACHE/redis-${version%.dsc}+$(checksum "$work/kept")"
# Another process may have been faster.
[ -d "$dir" ] || mv -T "$work/kept" "$dir" 2>/dev/null || [ -d "$dir" ]
echo "$dir"
