/* SPDX-License-Identifier: Apache-2.0
 *
 * How much is done, held or asked for at a time. No result depends on these numbers, only memory, the number of requests
 * and how long a turn of the loop is. A process never changes them; the simulator and tests draw small ones, so that what
 * happens at a bound happens with little data.
 */
#ifndef STORAGED_BOUNDS_H
#define STORAGED_BOUNDS_H

#include <stdint.h>

/* name, value, the least that works, what it bounds */
#define STORAGED_BOUNDS(X)                                                                                       \
	X(data_block, 1u << 20, 64, "a block of a data object ends with the frame that reaches it")              \
	X(data_page, 64u << 10, 128, "bytes of a page of a data object, a multiple of 64")                       \
	X(state_complete, 4096, 32, "bytes of producers up to which a state entry is always complete")           \
	X(tail_guess, 256u << 10, 256, "read of an object's end at first: footer and top, mostly")               \
	X(index_kept, 16, 4, "tops and pages kept in memory, however large they are")                            \
	X(put_max, 16u << 20, 1024, "a larger data object is uploaded in parts")                                  \
	X(put_part, 8u << 20, 4096, "such a part")                                                               \
	X(single_min, 4u << 20, 256, "a log with that much in a pack or a merge has objects of its own there")   \
	X(single_max, 256u << 20, 1024, "a pack closes such an object")                                          \
	X(run_max, 128u << 20, 1024, "a pack closes an object of many logs")                                     \
	X(merge_max, 32u << 20, 1024, "a merge closes an object: its frames stand in memory until it is stored") \
	X(merge_bytes, 4u << 20, 1, "copied by a merge in a turn")                                               \
	X(merge_steps, 1024, 1, "of a merge in a turn")                                                          \
	X(merge_pause_ms, 60000, 100, "after a merge was given up")                                              \
	X(pages_ahead, 1u << 20, 1, "read at a time of an object's pages by a merge")                            \
	X(blocks_ahead, 4u << 20, 1, "the same of its blocks")                                                   \
	X(pack_objects, 1000, 1, "so many WAL objects that are not packed are a reason")                         \
	X(walk_bytes, 1u << 20, 1, "of WAL walked by a pack in a turn")                                          \
	X(build_bytes, 2u << 20, 1, "of frames placed by a pack in a turn")                                      \
	X(build_frames, 4096, 8, "their number")                                                                 \
	X(release_logs, 2048, 1, "let go by a pack in a turn")                                                   \
	X(finish_items, 65536, 1, "blocks and entries listed at an object's end in a turn")                      \
	X(table_pages, 64, 1, "of the table of logs looked through by a pack in a turn")                         \
	X(gc_steps, 2000, 1, "objects or logs looked at by the search for dead objects in a turn")               \
	X(gc_remove, 1000, 1, "objects removed by a commit")                                                     \
	X(gc_keys, 1000, 1, "objects deleted by a request")                                                      \
	X(sweep_page, 1000, 1, "keys of a list, 1,000 at most")                                                  \
	X(sweep_forgotten, 65536, 1, "objects given up that a process remembers")                                \
	X(scan_bytes, 8u << 20, 1, "state pages read at a time by a start, beyond one")                          \
	X(recover_read, 64u << 20, 1, "WAL asked for at a time by a start, beyond one object")                   \
	X(recover_apply, 1u << 20, 1, "WAL taken by a start in a turn")                                          \
	X(loads, 64, 1, "logs loaded at a time")

struct bounds {
#define X(name, value, least, text) uint32_t name;
	STORAGED_BOUNDS(X)
#undef X
};
extern struct bounds bounds;
extern const struct bounds bounds_default;

#endif
