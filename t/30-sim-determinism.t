#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One seed is one trace, wherever the program is loaded and whatever fresh memory holds.
sim=$PICO_BUILD/t/sim/sim
trace() { "$@" --quiet 2>&1 | sed -n 's/.*trace \([0-9a-f]*\).*/\1/p'; }
n=0
echo 1..4
for seed in 3 4 5; do
	n=$((n + 1))
	a=$(MALLOC_PERTURB_=17 trace setarch -R "$sim" --seed $seed)
	b=$(MALLOC_PERTURB_=201 trace "$sim" --seed $seed)
	c=$(trace env PADDING="$(seq 500)" "$sim" --seed $seed)
	echo "# seed $seed: $a $b $c"
	if [ -n "$a" ] && [ "$a" = "$b" ] && [ "$b" = "$c" ]; then echo "ok $n - seed $seed"; else echo "not ok $n - seed $seed"; fi
	if [ $n -gt 1 ] && [ "$a" = "$last" ]; then same=1; fi
	last=$a
done
if [ -z "$same" ]; then echo "ok 4 - seeds differ"; else echo "not ok 4 - seeds differ"; fi
