#!/bin/bash
# fuzz.sh [seconds [package …]]: runs every fuzz target for that long (30 s), one after the other.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}
shift || true
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(./...)
targets=0
for package in $(go list "${packages[@]}"); do
  dir=$(go list -f '{{.Dir}}' "$package")
  for target in $(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //'); do
    targets=$((targets + 1))
    echo "== $package $target"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s"
  done
done
[ "$targets" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$targets targets, ${seconds} s each"
