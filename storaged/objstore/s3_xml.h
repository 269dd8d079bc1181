/* SPDX-License-Identifier: Apache-2.0
 *
 * What S3 answers in XML, read by expat. One structure for all of its documents: an answer is small, and an
 * error document may stand where another one is expected.
 */
#ifndef STORAGED_OBJSTORE_S3_XML_H
#define STORAGED_OBJSTORE_S3_XML_H

#include "common/slice.h"
#include "storaged/objstore/objstore.h"

#define S3_XML_ITEMS_MAX 2000u          /* a page has 1,000 */
#define S3_XML_TEXT_MAX 4096u

struct s3_document {
	char root[64];                  /* name of the outermost element, "" where none was read */
	char code[64];                  /* of an error document: letters and digits only */
	bool truncated;                 /* IsTruncated */
	char *next;                     /* NextContinuationToken or NextKeyMarker; NULL where there is none */
	char *next_upload_id;           /* NextUploadIdMarker */
	char *upload_id;                /* of InitiateMultipartUploadResult */
	struct obj_entry *entries;      /* Contents */
	size_t n_entries;
	struct obj_upload_entry *uploads;       /* Upload */
	size_t n_uploads;
	char *failed_key;               /* of the first Error in a DeleteResult, but NoSuchKey */
	char failed_code[64];
};

/*
 * 0, or -EBADMSG: not well-formed, with a document type, too deep, too many items or too long a text. Free it in
 * both cases.
 */
int s3_document_parse(struct slice text, struct s3_document *ret);
void s3_document_done(struct s3_document *d);

#endif
