#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Release programs are position independent, with read-only relocations bound at start, stack canaries, fortified
# calls, and no executable stack.
build=${PICO_BUILD:-.}
n=0
has() {
	n=$((n + 1))
	if grep -qE "$2" <<<"$3"; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "# nothing matches $2"
	fi
}

for program in pico supervisor/supervisor storaged/storaged worker-http/worker-http; do
	file=$build/$program
	if nm "$file" 2>/dev/null | grep -q __asan; then
		n=$((n + 1))
		echo "ok $n - $program # skip a sanitized build is no release"
		continue
	fi
	header=$(readelf -hW "$file") segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
	symbols=$(readelf -sW --dyn-syms "$file")
	has "$program: position independent" 'Type: +DYN' "$header"
	has "$program: PIE, no library" '\(FLAGS_1\).* PIE' "$dynamic"
	has "$program: read-only relocations" 'GNU_RELRO' "$segments"
	has "$program: bound at start" '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' "$dynamic"
	has "$program: stack is not executable" 'GNU_STACK.* RW +0x' "$segments"
	has "$program: stack canaries" '__stack_chk_fail' "$symbols"
	has "$program: fortified calls" '__(read|memcpy|snprintf|vsnprintf|printf|fprintf)_chk' "$symbols"
done
echo "1..$n"
