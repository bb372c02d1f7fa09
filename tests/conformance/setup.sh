#!/bin/bash
# setup.sh DEST: prepares harness-redis70 in DEST from Debian's source package of redis 7.0.15 (its own BSD-licensed
# tests), with Debian's redis-server as the reference. Then:
#   cd DEST; ./run_suite.sh PORT            against a running server
#   SUITE=redis70 SERVER_CMD='CMD --port {port} --dir {dir}' PROFILE=core|full|forced ./run_suite.sh PORT
# BASELINE=baseline/redis70.core.tsv (full, forced) gives a score against what redis-server 7.0.15 passes: 1792 in core,
# 1996 in full, 202 in forced. PROFILE=spawn lets the suite start servers itself (see run_suite.sh).
set -e
HERE=$(cd "$(dirname "$0")" && pwd) DEST=$1
[ -n "$DEST" ] || { echo "usage: $0 DEST" >&2; exit 2; }
mkdir -p "$DEST"; cp -r "$HERE"/. "$DEST"/
missing=""
for p in redis-server redis-tools tcl gcc libc6-dev dpkg-dev; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
need_source=""; [ -d "$DEST/src/redis-7.0.15" ] || need_source=1
if [ -n "$missing$need_source" ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "needs, as root: apt-get install$missing; and the source package redis 7.0.15 unpacked in $DEST/src" >&2; exit 1
  fi
  if [ -n "$need_source" ] && ! apt-get source --print-uris -qq redis >/dev/null 2>&1; then
    sed -i -E 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/*.sources
  fi
  apt-get update -qq
  # shellcheck disable=SC2086
  [ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  mkdir -p "$DEST/src"
  [ -z "$need_source" ] || (cd "$DEST/src" && apt-get source -qq redis >/dev/null 2>&1)
fi
"$DEST/prepare_harness.sh" "$DEST/src/redis-7.0.15" "$DEST/harness-redis70" /usr/bin
