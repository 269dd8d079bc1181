#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every manual page is well formed, and pico.conf(5) has every option of conf.def.
src=${PICO_SRC:-.} build=${PICO_BUILD:-.}
command -v mandoc >/dev/null || { echo "1..0 # skip mandoc is not installed"; exit 0; }
n=0
for page in "$src"/doc/*.[1578] "$build"/doc/*.[1578]; do
	[ -f "$page" ] || continue
	n=$((n + 1))
	faults=$(mandoc -Tlint -Wwarning "$page" 2>&1)
	if [ -z "$faults" ]; then
		echo "ok $n - ${page##*/} is well formed"
	else
		echo "not ok $n - ${page##*/} is well formed"
		sed 's/^/# /' <<<"$faults"
	fi
done
n=$((n + 1))
wanted=$(sed -n 's/^CONF(\([a-z0-9_]*\),.*/\1/p' "$src/common/conf.def")
shown=$(sed -n 's/^\.It Ic \([a-z0-9_]*\) No = Ar .*/\1/p' "$build/doc/pico.conf.5")
if [ -n "$wanted" ] && [ "$wanted" = "$shown" ]; then
	echo "ok $n - pico.conf(5) has every option"
else
	echo "not ok $n - pico.conf(5) has every option"
	diff <(echo "$wanted") <(echo "$shown") | sed 's/^/# /'
fi
echo "1..$n"
