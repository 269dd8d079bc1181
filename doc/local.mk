# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += doc/decisions.md doc/disk-format.md
