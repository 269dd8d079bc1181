/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the S3 transport. Each turns around curl_multi_poll(): takes what is queued, lets curl work, gives
 * back what is over, gives up what has been still for too long. One wake-up hands over all that gathered in a turn
 * of the loop, and one task on the loop takes all that is done.
 */
#include "storaged/objstore/s3_transport.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/objstore/s3_transfer.h"

#define POLL_MS 200
#define NS_PER_MS 1000000u

struct list {
	struct s3_exchange *head, **tail;
};

struct thread {
	struct s3_transport *transport;
	pthread_t id;
	CURLM *multi;
	struct s3_signer signer;
	struct s3_transfer *active[S3_TRANSFERS_MAX], *idle;
	unsigned n_active;
	struct list queue;              /* under the transport's lock */
	unsigned n_out;                 /* queued or active, under the lock */
};

struct s3_transport {
	const struct s3_config *config;
	struct s3_credentials *credentials;
	void (*on_done)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	struct list done;
	bool stop;
	struct thread thread[S3_THREADS];
};

static void list_init(struct list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

static void list_put(struct list *l, struct s3_exchange *x)
{
	x->next = NULL;
	*l->tail = x;
	l->tail = &x->next;
}

static struct s3_exchange *list_take(struct list *l)
{
	struct s3_exchange *x = l->head;
	if (x == NULL)
		return NULL;
	if ((l->head = x->next) == NULL)
		l->tail = &l->head;
	x->next = NULL;
	return x;
}

/* A thread's turn */

static void give_back(struct thread *th, struct s3_exchange *x)
{
	struct s3_transport *t = th->transport;
	pthread_mutex_lock(&t->lock);
	bool first = t->done.head == NULL;
	th->n_out--;
	list_put(&t->done, x);
	if (first && !t->stop)
		t->on_done(t->arg);
	pthread_mutex_unlock(&t->lock);
}

static struct s3_transfer *transfer_take(struct thread *th)
{
	struct s3_transfer *f = th->idle;
	if (f == NULL)
		return s3_transfer_new();
	th->idle = f->next;
	return f;
}

static void transfer_put_away(struct thread *th, struct s3_transfer *f)
{
	f->next = th->idle;
	th->idle = f;
}

static void begin(struct thread *th, struct s3_exchange *x)
{
	struct s3_transfer *f = transfer_take(th);
	int r = atomic_load(&x->cancelled) ? -ECANCELED :
		s3_transfer_begin(f, x, th->transport->config, &th->signer, th->transport->credentials);
	if (r == 0 && curl_multi_add_handle(th->multi, f->easy) == CURLM_OK) {
		th->active[th->n_active++] = f;
		return;
	}
	if (f->exchange != NULL)
		s3_transfer_give_up(f, r < 0 ? r : -EIO, "cannot write or sign the request");
	x->err = r < 0 ? r : -EIO;
	x->sent = false;
	transfer_put_away(th, f);
	give_back(th, x);
}

static void begin_queued(struct thread *th)
{
	while (th->n_active < S3_TRANSFERS_MAX) {
		pthread_mutex_lock(&th->transport->lock);
		struct s3_exchange *x = list_take(&th->queue);
		pthread_mutex_unlock(&th->transport->lock);
		if (x == NULL)
			return;
		begin(th, x);
	}
}

/* The handle leaves curl before the exchange leaves the thread: nothing reads the body after that. */
static void active_remove(struct thread *th, unsigned i)
{
	struct s3_transfer *f = th->active[i];
	curl_multi_remove_handle(th->multi, f->easy);
	th->active[i] = th->active[--th->n_active];
	transfer_put_away(th, f);
}

static unsigned active_find(const struct thread *th, const CURL *easy)
{
	unsigned i = 0;
	while (th->active[i]->easy != easy)
		must(++i < th->n_active);
	return i;
}

static void end_finished(struct thread *th)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(th->multi, &left)) != NULL;) {
		if (m->msg != CURLMSG_DONE)
			continue;
		CURLcode result = m->data.result;
		unsigned i = active_find(th, m->easy_handle);
		struct s3_exchange *x = th->active[i]->exchange;
		struct s3_transfer *f = th->active[i];
		active_remove(th, i);
		s3_transfer_end(f, result);
		give_back(th, x);
	}
}

static void end_still(struct thread *th)
{
	uint64_t now = s3_clock_ns(), timeout_ms = th->transport->config->timeout_ms;
	for (unsigned i = 0; i < th->n_active;) {
		struct s3_transfer *f = th->active[i];
		struct s3_exchange *x = f->exchange;
		bool cancelled = atomic_load(&x->cancelled);
		if (!cancelled && now - f->progress_ns <= timeout_ms * NS_PER_MS) {
			i++;
			continue;
		}
		char why[64];
		snprintf(why, sizeof(why), "no byte in %u ms", (unsigned)timeout_ms);
		active_remove(th, i);
		s3_transfer_give_up(f, cancelled ? -ECANCELED : -ETIMEDOUT, cancelled ? "cancelled" : why);
		give_back(th, x);
	}
}

static bool is_stopping(struct s3_transport *t)
{
	pthread_mutex_lock(&t->lock);
	bool stop = t->stop;
	pthread_mutex_unlock(&t->lock);
	return stop;
}

static void *run(void *arg)
{
	struct thread *th = arg;
	int running;
	while (!is_stopping(th->transport)) {
		begin_queued(th);
		curl_multi_perform(th->multi, &running);
		end_finished(th);
		end_still(th);
		/* With nothing to do it sleeps until it is woken. */
		curl_multi_poll(th->multi, NULL, 0, th->n_active > 0 ? POLL_MS : 60000, NULL);
	}
	while (th->n_active > 0)
		active_remove(th, 0);
	for (struct s3_transfer *f; (f = th->idle) != NULL;) {
		th->idle = f->next;
		s3_transfer_free(f);
	}
	explicit_bzero(&th->signer, sizeof(th->signer));
	return NULL;
}

/* The loop's side */

void s3_transport_start(struct s3_transport *t, struct s3_exchange *list)
{
	bool wake[S3_THREADS] = { false };
	pthread_mutex_lock(&t->lock);
	while (list != NULL) {
		struct s3_exchange *x = list;
		list = x->next;
		unsigned least = 0;
		for (unsigned i = 1; i < S3_THREADS; i++)
			least = t->thread[i].n_out < t->thread[least].n_out ? i : least;
		x->thread = least;
		t->thread[least].n_out++;
		list_put(&t->thread[least].queue, x);
		wake[least] = true;
	}
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < S3_THREADS; i++) {
		if (wake[i])
			curl_multi_wakeup(t->thread[i].multi);
	}
}

void s3_transport_wake(struct s3_transport *t, const struct s3_exchange *x)
{
	curl_multi_wakeup(t->thread[x->thread].multi);
}

struct s3_exchange *s3_transport_take(struct s3_transport *t)
{
	pthread_mutex_lock(&t->lock);
	struct s3_exchange *list = t->done.head;
	list_init(&t->done);
	pthread_mutex_unlock(&t->lock);
	return list;
}

/* Signals are the loop's. */
static int threads_start(struct s3_transport *t)
{
	sigset_t all, before;
	int r = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; r == 0 && i < S3_THREADS; i++) {
		struct thread *th = &t->thread[i];
		*th = (struct thread){ .transport = t, .multi = curl_multi_init(),
				       .signer = { .region = t->config->region, .service = "s3" } };
		must(th->multi != NULL);
		curl_multi_setopt(th->multi, CURLMOPT_MAXCONNECTS, (long)S3_TRANSFERS_MAX);
		list_init(&th->queue);
		r = -pthread_create(&th->id, NULL, run, th);
		must(r == 0 || i == 0);
		if (r < 0)
			curl_multi_cleanup(th->multi);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int s3_transport_open(const struct s3_config *config, struct s3_credentials *credentials, void (*on_done)(void *arg),
		      void *arg, struct s3_transport **ret)
{
	struct s3_transport *t = must_calloc(1, sizeof(*t));
	*t = (struct s3_transport){ .config = config, .credentials = credentials, .on_done = on_done, .arg = arg };
	must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	must(pthread_mutex_init(&t->lock, NULL) == 0);
	list_init(&t->done);
	int r = threads_start(t);
	if (r < 0) {
		pthread_mutex_destroy(&t->lock);
		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void s3_transport_free(struct s3_transport *t)
{
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < S3_THREADS; i++)
		curl_multi_wakeup(t->thread[i].multi);
	for (unsigned i = 0; i < S3_THREADS; i++) {
		pthread_join(t->thread[i].id, NULL);
		curl_multi_cleanup(t->thread[i].multi);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void s3_exchange_free(struct s3_exchange *x)
{
	if (x == NULL)
		return;
	if (x->body.max > 0)
		buf_done(&x->body);
	s3_document_done(&x->document);
	free(x);
}
