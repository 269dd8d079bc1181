/* SPDX-License-Identifier: Apache-2.0
 *
 * Credentials for S3. A broken or vanished file leaves the last good keys: the store will say when they are over.
 *
 * Invariant: no value leaves this file but through s3_credentials_get(); no message holds one.
 */
#include "storaged/objstore/s3_credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/must.h"

#define FILE_MAX (256u << 10)
#define LOOK_EVERY_MS 1000u

/* The environment */

/* Kept for the second store of a process; the loop's. */
static struct s3_keys of_environment;
static bool environment_taken;

static void variable_take(const char *name, char *to, size_t size)
{
	char *value = getenv(name);
	if (value == NULL)
		return;
	if (strlen(value) < size)
		strcpy(to, value);
	explicit_bzero(value, strlen(value));
	unsetenv(name);
}

static void environment_take(void)
{
	if (environment_taken)
		return;
	environment_taken = true;
	variable_take("AWS_ACCESS_KEY_ID", of_environment.access_key, sizeof(of_environment.access_key));
	variable_take("AWS_SECRET_ACCESS_KEY", of_environment.secret, sizeof(of_environment.secret));
	variable_take("AWS_SESSION_TOKEN", of_environment.token, sizeof(of_environment.token));
}

/* The file */

static struct slice trimmed(struct slice s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = slice_of(s.p + 1, s.n - 1);
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
		s.n--;
	return s;
}

static struct slice line_take(struct slice *text)
{
	const uint8_t *end = text->n > 0 ? memchr(text->p, '\n', text->n) : NULL;
	size_t n = end != NULL ? (size_t)(end - text->p) : text->n;
	struct slice line = slice_of(text->p, n);
	n += end != NULL;
	*text = slice_of(text->p + n, text->n - n);
	return trimmed(line);
}

static int value_copy(char *to, size_t size, struct slice value)
{
	if (value.n >= size || memchr(value.p, 0, value.n) != NULL)
		return -EINVAL;
	memcpy(to, value.p, value.n);
	to[value.n] = 0;
	return 0;
}

static int pair_take(struct s3_keys *keys, struct slice line)
{
	const uint8_t *equals = memchr(line.p, '=', line.n);
	if (equals == NULL)
		return 0;
	struct slice name = trimmed(slice_of(line.p, (size_t)(equals - line.p)));
	struct slice value = trimmed(slice_of(equals + 1, line.n - (size_t)(equals - line.p) - 1));
	if (value.n == 0)
		return 0;
	if (slice_is(name, "aws_access_key_id"))
		return value_copy(keys->access_key, sizeof(keys->access_key), value);
	if (slice_is(name, "aws_secret_access_key"))
		return value_copy(keys->secret, sizeof(keys->secret), value);
	if (slice_is(name, "aws_session_token"))
		return value_copy(keys->token, sizeof(keys->token), value);
	return 0;
}

int s3_credentials_parse(struct slice text, const char *profile, struct s3_keys *ret)
{
	struct s3_keys keys = { .token = "" };
	bool inside = false, found = false;
	int r = 0;
	while (r == 0 && text.n > 0) {
		struct slice line = line_take(&text);
		if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';')
			continue;
		if (line.p[0] == '[') {
			struct slice name = trimmed(slice_of(line.p + 1, line.n - 1));
			inside = name.n > 0 && name.p[name.n - 1] == ']' &&
				 slice_is(trimmed(slice_of(name.p, name.n - 1)), profile);
			found |= inside;
		} else if (inside) {
			r = pair_take(&keys, line);
		}
	}
	if (r == 0 && !found)
		r = -ENOENT;
	if (r == 0 && (keys.access_key[0] == 0 || keys.secret[0] == 0))
		r = -EINVAL;
	if (r == 0)
		*ret = keys;
	explicit_bzero(&keys, sizeof(keys));
	return r;
}

static int file_read(const char *path, char **ret_text, size_t *ret_n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	char *text = must_calloc(1, FILE_MAX);
	size_t n = 0;
	ssize_t got;
	while (n < FILE_MAX && (got = read(fd, text + n, FILE_MAX - n)) > 0)
		n += (size_t)got;
	close(fd);
	*ret_text = text;
	*ret_n = n;
	return 0;
}

/* Reads the file if it has changed since. */
static int file_load(struct s3_credentials *c)
{
	struct stat st;
	char *text = NULL;
	size_t n = 0;
	if (stat(c->path, &st) != 0)
		return -errno;
	if (st.st_mtim.tv_sec == c->changed.tv_sec && st.st_mtim.tv_nsec == c->changed.tv_nsec)
		return 0;
	int r = file_read(c->path, &text, &n);
	if (r < 0)
		return r;
	r = s3_credentials_parse(slice_of(text, n), c->profile, &c->keys);
	explicit_bzero(text, n);
	free(text);
	c->changed = st.st_mtim;
	return r;
}

/* Life */

static void file_name(struct s3_credentials *c)
{
	const char *path = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME"), *profile = getenv("AWS_PROFILE");
	if (path != NULL && path[0] != 0)
		snprintf(c->path, sizeof(c->path), "%s", path);
	else
		snprintf(c->path, sizeof(c->path), "%s/.aws/credentials", home != NULL ? home : "");
	snprintf(c->profile, sizeof(c->profile), "%s", profile != NULL && profile[0] != 0 ? profile : "default");
}

static void fault_tell(const struct s3_credentials *c, int err, char *fault, size_t fault_size)
{
	const char *why = err == -EINVAL ? "lacks aws_access_key_id or aws_secret_access_key, or one is too long" :
			  "is not in it";
	if (err == -EINVAL || (err == -ENOENT && access(c->path, F_OK) == 0))
		snprintf(fault, fault_size, "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or look "
			 "at %s: profile %s %s", c->path, c->profile, why);
	else
		snprintf(fault, fault_size, "no credentials for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, "
			 "and %s: %s", c->path, strerror(-err));
}

int s3_credentials_init(struct s3_credentials *c, char *fault, size_t fault_size)
{
	*c = (struct s3_credentials){ .path = "" };
	must(pthread_mutex_init(&c->lock, NULL) == 0);
	environment_take();
	c->keys = of_environment;
	bool one = c->keys.access_key[0] != 0, other = c->keys.secret[0] != 0;
	if (one && other)
		return 0;
	if (one || other) {
		snprintf(fault, fault_size, "no credentials for S3: AWS_%s is set and AWS_%s is not, or is too long",
			 one ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY", one ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID");
		s3_credentials_done(c);
		return -ENOENT;
	}
	file_name(c);
	int r = file_load(c);
	if (r < 0) {
		fault_tell(c, r, fault, fault_size);
		s3_credentials_done(c);
	}
	return r;
}

void s3_credentials_done(struct s3_credentials *c)
{
	pthread_mutex_destroy(&c->lock);
	explicit_bzero(c, sizeof(*c));
}

void s3_credentials_get(struct s3_credentials *c, uint64_t now_ms, struct s3_keys *ret)
{
	pthread_mutex_lock(&c->lock);
	if (c->path[0] != 0 && now_ms - c->looked_ms >= LOOK_EVERY_MS) {
		c->looked_ms = now_ms;
		(void)file_load(c);
	}
	*ret = c->keys;
	pthread_mutex_unlock(&c->lock);
}
