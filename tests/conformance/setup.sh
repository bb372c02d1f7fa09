#!/bin/bash
# setup.sh DEST: prepares DEST/harness-redis70 from Redis's own tests (see fetch.sh), and copies these scripts beside it. Then:
#   cd DEST; ./run_suite.sh PORT            against a running server
#   SUITE=redis70 SERVER_CMD='CMD --port {port} --dir {dir}' PROFILE=core|full|forced ./run_suite.sh PORT
# BASELINE=baseline/redis70.core.tsv (full, forced) gives a score against what redis-server 7.0.15 passes: 1792 in core,
# 1996 in full, 202 in forced. PROFILE=spawn lets the suite start servers itself (see run_suite.sh).
set -e
HERE=$(cd "$(dirname "$0")" && pwd) DEST=$1
[ -n "$DEST" ] || { echo "usage: $0 DEST" >&2; exit 2; }
SOURCE=$("$HERE/fetch.sh" "${XDG_CACHE_HOME:-$HOME/.cache}/kevy/redis-tests")
mkdir -p "$DEST"; cp -r "$HERE"/. "$DEST"/
"$DEST/prepare_harness.sh" "$SOURCE" "$DEST/harness-redis70" /usr/bin
