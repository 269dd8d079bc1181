/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the catalogue as messages of commands and snapshots, and back.
 */
#ifndef STORAGED_META_OBJECT_MESSAGE_H
#define STORAGED_META_OBJECT_MESSAGE_H

#include "proto/meta.pb-c.h"
#include "storaged/data/catalogue.h"

/* A row as a message that points into itself: it stays where it is. */
struct object_message {
	Meta__ObjectRow m;
	Meta__ObjectId id;
};
/* Marks and changed_idx are no part of it. */
void object_message_fill(struct object_message *ret, const struct object_row *row);
void object_id_fill(Meta__ObjectId *ret, struct object_id id);

/* What is wrong with the message taken alone, in a few words; NULL: nothing. run is not looked at. */
const char *object_message_fault(const Meta__ObjectRow *m);
/* Of a message without fault; unmarked, changed_idx 0. */
struct object_row object_message_row(const Meta__ObjectRow *m);
struct object_id object_message_id(const Meta__ObjectId *id);

#endif
