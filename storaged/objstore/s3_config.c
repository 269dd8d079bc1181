/* SPDX-License-Identifier: Apache-2.0
 *
 * From a storage URL to host and paths. Without an endpoint it is AWS, with the bucket in the host's name; an
 * endpoint of one's own has the bucket in the path, unless pathStyle=false. A bucket whose name has a dot fits no
 * certificate and stands in the path, too.
 */
#include "storaged/objstore/s3_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT(...) (snprintf(fault, fault_size, __VA_ARGS__), -EINVAL)

static bool has_only(const char *text, size_t n, const char *others)
{
	for (size_t i = 0; i < n; i++) {
		bool word = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'z') ||
			    (text[i] >= 'A' && text[i] <= 'Z');
		if (!word && (text[i] == 0 || strchr(others, text[i]) == NULL))
			return false;
	}
	return n > 0;
}

static bool prefix_is_good(const char *prefix)
{
	for (const char *p = prefix; *p != 0;) {
		size_t n = strcspn(p, "/");
		if (!has_only(p, n, ".-_=+@") || p[0] == '.')
			return false;
		p += n + (p[n] == '/');
	}
	return strlen(prefix) < 400;
}

static int place_make(const char *path, struct s3_config *c, char *fault, size_t fault_size)
{
	size_t n = strcspn(path, "/");
	if (n >= sizeof(c->bucket) || !has_only(path, n, ".-_") || path[0] == '.' || path[0] == '-')
		return FAULT("storage URL: '%.*s' is no name of a bucket", (int)n, path);
	memcpy(c->bucket, path, n);
	const char *prefix = path[n] == '/' ? path + n + 1 : path + n;
	if (!prefix_is_good(prefix))
		return FAULT("storage URL: prefix '%s': give segments of letters, digits and . - _ = + @, none empty or "
			     "beginning with '.', shorter than 400 bytes together", prefix);
	bool slash = prefix[0] != 0 && prefix[strlen(prefix) - 1] != '/';
	snprintf(c->prefix, sizeof(c->prefix), "%s%s", prefix, slash ? "/" : "");
	return 0;
}

static void region_make(const struct objstore_url *url, struct s3_config *c)
{
	const char *region = url->region[0] != 0 ? url->region : getenv("AWS_REGION");
	if (region == NULL || region[0] == 0)
		region = getenv("AWS_DEFAULT_REGION");
	if (region == NULL || region[0] == 0)
		region = "us-east-1";
	snprintf(c->region, sizeof(c->region), "%s", region);
}

/* host: of the endpoint, with its port. */
static void host_make(struct s3_config *c, const char *host, bool path_style)
{
	if (path_style) {
		snprintf(c->host, sizeof(c->host), "%s", host);
		snprintf(c->root, sizeof(c->root), "/%s", c->bucket);
	} else {
		snprintf(c->host, sizeof(c->host), "%s.%s", c->bucket, host);
	}
	snprintf(c->base, sizeof(c->base), "http%s://%s", c->tls ? "s" : "", c->host);
}

/* Scheme and host of an endpoint; the port that the scheme means anyhow is left out. */
static int endpoint_parse(const char *endpoint, struct s3_config *c, char host[512], char *fault, size_t fault_size)
{
	const char *at = strstr(endpoint, "://");
	c->tls = strncmp(endpoint, "https://", 8) == 0;
	if (at == NULL || (!c->tls && strncmp(endpoint, "http://", 7) != 0))
		return FAULT("storage URL: endpoint=%s: write http://HOST[:PORT] or https://HOST[:PORT]", endpoint);
	snprintf(host, 512, "%s", at + 3);
	size_t n = strlen(host);
	if (n > 0 && host[n - 1] == '/')
		host[--n] = 0;
	if (!has_only(host, n, ".-_:[]"))
		return FAULT("storage URL: endpoint=%s: a host and a port, no path and no user", endpoint);
	const char *usual = c->tls ? ":443" : ":80";
	if (n > strlen(usual) && strcmp(host + n - strlen(usual), usual) == 0)
		host[n - strlen(usual)] = 0;
	return 0;
}

int s3_config_make(const struct objstore_url *url, struct s3_config *ret, char *fault, size_t fault_size)
{
	struct s3_config c = { .tls = true };
	char host[512];
	int r = place_make(url->path, &c, fault, fault_size);
	if (r < 0)
		return r;
	region_make(url, &c);
	if (!has_only(c.region, strlen(c.region), "-_"))
		return FAULT("storage URL: region '%s' is none", c.region);
	if (strlen(c.bucket) > 6 && strcmp(c.bucket + strlen(c.bucket) - 6, "--x-s3") == 0)
		return FAULT("storage URL: %s is a directory bucket (S3 Express), whose sessions are not built yet: use a "
			     "general purpose bucket", c.bucket);
	bool path_style = strchr(c.bucket, '.') != NULL;
	if (url->endpoint[0] != 0) {
		r = endpoint_parse(url->endpoint, &c, host, fault, fault_size);
		path_style = true;
	} else {
		snprintf(host, sizeof(host), "s3.%s.amazonaws.com", c.region);
	}
	if (r < 0)
		return r;
	host_make(&c, host, url->path_style >= 0 ? url->path_style == 1 : path_style);
	const char *ca = getenv("AWS_CA_BUNDLE");
	snprintf(c.ca_file, sizeof(c.ca_file), "%s", ca != NULL ? ca : "");
	c.timeout_ms = url->request_timeout_ms != 0 ? url->request_timeout_ms : S3_REQUEST_TIMEOUT_MS;
	*ret = c;
	return 0;
}
