#!/bin/bash
# run.sh [unit ...]: Redis's own tests against the kevy-server of this tree; all units of the profile without arguments.
#
#   PROFILE=core|full|forced|spawn   (core)
#   CONF=dir                   where the harness and the logs live; never in the repository
#   KEVY_TEST_SERVER=path      another server: a redis-server gives the reference figures
#   PORT=n                     the port of the server (17500); two runs at once need different ones
#
# Prints a line a unit, the TOTAL with pct = refok/ref, and the tests of the baseline that fail.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
CONF=${CONF:-${TMPDIR:-/tmp}/kevy-conformance-$(id -u)}
PROFILE=${PROFILE:-core} PORT=${PORT:-17500} SUITE=redis70
if [ -d "$CONF/harness-$SUITE/tests" ]; then
  cp -r "$HERE"/. "$CONF"/
else
  "$HERE/setup.sh" "$CONF"
fi
SERVER=${KEVY_TEST_SERVER:-}
if [ -z "$SERVER" ]; then
  SERVER=$CONF/kevy-server
  (cd "$ROOT" && go build -o "$SERVER" ./cmd/kevy-server)
fi
SERVER=$(command -v "$SERVER")
cd "$CONF"
OUT=${OUT:-$CONF/logs/$SUITE-$PROFILE-$PORT-$(date +%H%M%S)}
if [ "$PROFILE" = spawn ]; then
  # There is no baseline: a run with KEVY_TEST_SERVER=redis-server beside it says what passes.
  export SUITE PROFILE OUT SPAWN_BIN=$SERVER CONF_READ_TIMEOUT_MS=${CONF_READ_TIMEOUT_MS:-3000}
  case $(basename "$SERVER") in
    redis-server*) ;;
    *) export SPAWN_BIN=$CONF/spawn_shim.sh CONF_SERVER_BIN="$SERVER serve" ;;
  esac
  exec ./run_suite.sh "$PORT" "$@"
fi
case $(basename "$SERVER") in
  redis-server*) CMD="$SERVER --port {port} --dir {dir} --save '' --enable-debug-command yes" ;;
  *) CMD="$SERVER serve --port {port} --dir {dir} --enable-debug-command yes" ;;
esac
export SUITE PROFILE OUT BASELINE=$CONF/baseline/$SUITE.$PROFILE.tsv SERVER_CMD=$CMD CONF_READ_TIMEOUT_MS=${CONF_READ_TIMEOUT_MS:-3000}
./run_suite.sh "$PORT" "$@"
awk -F'\t' 'FNR==NR{b[$1 FS $2]++; next} $1=="OK"{k[$2 FS $3]++} $1!="OK"{why[$2 FS $3]=$4} {seen[$2]=1}
  END{for(x in b){split(x,p,FS); if(seen[p[1]] && k[x]<b[x]) print p[1] ": " p[2] (x in why ? "  (" why[x] ")" : "")}}' \
  "$BASELINE" "$OUT/tests.tsv" | LC_ALL=C sort > "$OUT/failing.txt"
echo "$(wc -l < "$OUT/failing.txt") tests of the baseline fail: $OUT/failing.txt"
