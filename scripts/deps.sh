#!/bin/bash
# deps.sh: the programs that the tests use. As root on Debian it installs those that are missing; elsewhere it lists
# them. It succeeds if all are there. Tests that miss a program are skipped, unless KEVY_REQUIRE_TOOLS is set.
set -u

packages=(redis-server redis-tools tcl gcc libc6-dev dpkg-dev strace python3-redis libhiredis-dev prometheus-redis-exporter python3-celery ruby-sidekiq iproute2 curl)

# installed reports whether what the tests use of a package is there, however it came.
installed() {
  case $1 in
    redis-tools) command -v redis-cli && command -v redis-benchmark && command -v redis-check-aof ;;
    tcl) command -v tclsh ;;
    libc6-dev) [ -e /usr/include/stdlib.h ] ;;
    libhiredis-dev) [ -e /usr/include/hiredis/hiredis.h ] ;;
    dpkg-dev) command -v dpkg-source ;;
    python3-redis) /usr/bin/python3 -c 'import redis' || python3 -c 'import redis' ;;
    python3-celery) /usr/bin/python3 -c 'import celery' ;;
    ruby-sidekiq) command -v sidekiq && command -v ruby ;;
    iproute2) PATH=$PATH:/usr/sbin:/sbin command -v ss ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

find_missing() {
  missing=()
  for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ]
}

find_missing && exit 0

if [ "$(id -u)" != 0 ] || [ ! -e /etc/debian_version ] || ! command -v apt-get >/dev/null; then
  echo "Tests will be skipped for want of these; as root on Debian they are installed by themselves:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
fi

echo "installing ${missing[*]}"
# The redis-server package starts a server on port 6379, which is not wanted: policy-rc.d forbids it meanwhile.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
if ! output=$(apt-get update -q 2>&1 && apt-get install -q -y --no-install-recommends "${missing[@]}" 2>&1); then
  echo "$output" >&2
  exit 1
fi
find_missing || { echo "still missing: ${missing[*]}" >&2; exit 1; }
