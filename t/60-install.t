#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make install into a staging directory: everything is there, the staged pico serves, make uninstall leaves nothing.
build=${PICO_BUILD:-.}
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
n=0
is() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$2" | sed 's/^/# got      /'
		printf '%s\n' "$3" | sed 's/^/# expected /'
	fi
}

make -s -C "$build" install DESTDIR="$stage" prefix=/opt/pico >"$stage/log" 2>&1
is "make install DESTDIR= works" "$? $(grep -i error "$stage/log")" "0 "
is "programs" "$(cd "$stage/opt/pico" && find bin libexec -type f -perm -100 | sort)" \
	"bin/pico
libexec/picomq/storaged
libexec/picomq/supervisor
libexec/picomq/worker-hook
libexec/picomq/worker-http
libexec/picomq/worker-kafka"
is "manual pages" "$(cd "$stage/opt/pico/share/man" && ls man1/pico-bench.1 man5/pico.conf.5 man8/pico-serve.8)" "man1/pico-bench.1
man5/pico.conf.5
man8/pico-serve.8"
version=$(sed -n "s/^PACKAGE_VERSION = //p" "$build/Makefile")
is "the staged pico knows its version" "$("$stage/opt/pico/bin/pico" --version)" "pico $version"

exec 3< <(exec "$stage/opt/pico/bin/pico" serve --data-dir "$stage/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
	--no-ds --no-kafka 2>"$stage/err")
node=$!
last=
while read -r -t 60 line <&3; do
	last=$line
	[ "$line" = ready ] && break
done
is "the staged node becomes ready" "$last" ready
is "its programs are the staged ones" "$(for p in "$node" $(pgrep -P "$node"); do readlink "/proc/$p/exe"; done |
	sed "s|$stage||" | sort -u)" "/opt/pico/libexec/picomq/storaged
/opt/pico/libexec/picomq/supervisor
/opt/pico/libexec/picomq/worker-http"
kill -TERM "$node"
wait "$node"
is "it ends with 0" "$?" 0

make -s -C "$build" uninstall DESTDIR="$stage" prefix=/opt/pico >"$stage/log" 2>&1
is "make uninstall leaves nothing" "$(find "$stage/opt" -type f)" ""
echo "1..$n"
