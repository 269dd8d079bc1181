#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, as C17. Runs in the build directory.
src=${PICO_SRC:-.}
n=0; bad=0
for h in $(cd "$src" && find common storaged supervisor worker-http worker-kafka cli -name '*.h' | sort); do
	n=$((n + 1))
	if printf '#include "%s"\n' "$h" | ${CC:-gcc} -std=gnu17 -Wall -Wextra -Wno-unused-parameter -Werror \
		-I"$src" -I. -fsyntax-only -x c - 2>header.err; then
		echo "ok $n - $h"
	else
		echo "not ok $n - $h"; sed 's/^/# /' header.err; bad=1
	fi
done
rm -f header.err
echo "1..$n"
exit $bad
