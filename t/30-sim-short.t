#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# 200 seeds of the simulator, and one small run once for every I/O step.
sim=$PICO_BUILD/t/sim/sim
echo 1..2
if out=$("$sim" --seeds 1..200 --jobs "$(nproc)" 2>&1); then echo "ok 1 - 200 seeds"; else echo "not ok 1 - 200 seeds"; fi
echo "$out" | sed 's/^/# /'
if out=$("$sim" --seeds 1..1 --crash-every 2>&1); then echo "ok 2 - crash at every step"; else echo "not ok 2 - crash at every step"; fi
echo "$out" | sed 's/^/# /'
