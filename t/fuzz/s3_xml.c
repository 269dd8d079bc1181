/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of S3 in XML, and credentials files: whatever comes is read or refused, within the bounds.
 */
#include "t/fuzz/fuzz.h"

#include <errno.h>

#include "common/must.h"
#include "storaged/objstore/s3_credentials.h"
#include "storaged/objstore/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct s3_document d;
	struct s3_keys keys;
	int r = s3_document_parse(slice_of(data, size), &d);
	must(r == 0 || r == -EBADMSG);
	must(r != 0 || d.root[0] != 0);
	must(d.n_entries <= S3_XML_ITEMS_MAX && d.n_uploads <= S3_XML_ITEMS_MAX);
	for (size_t i = 0; i < d.n_entries; i++)
		must(strlen(d.entries[i].key) < S3_XML_TEXT_MAX);
	for (size_t i = 0; i < d.n_uploads; i++)
		must(d.uploads[i].id != NULL && strlen(d.uploads[i].key) < S3_XML_TEXT_MAX);
	must(strspn(d.code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == strlen(d.code));
	s3_document_done(&d);
	if (s3_credentials_parse(slice_of(data, size), "default", &keys) == 0)
		must(keys.access_key[0] != 0 && keys.secret[0] != 0);
	return 0;
}
