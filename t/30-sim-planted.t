#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulator's own test: each planted bug is found within 1,000 seeds, by a run that is good without it.
sim=$PICO_BUILD/t/sim/sim-planted
n=0
echo 1..23
for bug in ack-before-store ignore-seal unknown-as-failure unknown-as-success producer-forgotten lost-wakeup \
	ack-out-of-order seal-deleted sweep-by-age newest-by-run state-with-records commit-unchecked \
	snapshot-without-base cut-without-seals trash-before-commit gc-without-forks retention-by-wall \
	ttl-not-renewed any-epoch old-database load-forgets load-overtaken; do
	n=$((n + 1))
	out=$("$sim" --bug $bug --seeds 1..1000 --jobs "$(nproc)" --quiet 2>&1)
	if [ $? = 1 ]; then echo "ok $n - $bug"; else echo "not ok $n - $bug: not found"; fi
	echo "$out" | sed -n 's/^failed: /# found: /p'
done
if "$sim" --seeds 1..20 --jobs "$(nproc)" --quiet >/dev/null 2>&1; then echo "ok 23 - none switched on, none found"; else echo "not ok 23 - none switched on, none found"; fi
