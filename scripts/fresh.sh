#!/bin/bash
# fresh.sh: fails if `go generate` changes a file. It works on a copy, so that nothing is changed here.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ -e "$file" ] && printf '%s\0' "$file"
done | tar --null -T - -cf - | tar -xf - -C "$copy"
generators=$(grep -rl --include=*.go '^//go:generate ' "$copy" | wc -l)
[ "$generators" -gt 0 ] || { echo "no //go:generate line found" >&2; exit 1; }
cp -r "$copy" "$copy.before"
trap 'rm -rf "$copy" "$copy.before"' EXIT
(cd "$copy" && go generate ./...)
if ! diff -ru "$copy.before" "$copy"; then
  echo 'generated files are not fresh; run: make generate' >&2
  exit 1
fi
echo "$generators files with generators: fresh"
