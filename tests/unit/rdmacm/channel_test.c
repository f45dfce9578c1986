/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels that end under the threads that take their events, and counts that
 * come later than their events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../own_net.h"
#include "connect/cm_thread.h"

#if defined(__has_feature)
#define WITH_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#else
#define WITH_ASAN 0
#endif

static void short_sleep(void)
{
	struct timespec t = { .tv_nsec = 20000000 };

	nanosleep(&t, NULL);
}

struct late {
	struct rdma_event_channel *ch;
	pthread_t thread;
	bool ends; /* another thread ends the channel before its read(2) */
	atomic_bool ended;
	int rc;
	int error;
};

static _Thread_local struct late *ends_before_read;

/* A thread stops before its write(2), and after it. */
struct slow_write {
	struct rdma_cm_id *id;
	sem_t reached;
	sem_t go;
};

static _Thread_local struct slow_write *writes_slowly;

static void pause_writer(struct slow_write *w)
{
	sem_post(&w->reached);
	while (sem_wait(&w->go))
		;
}

static void *end_channel(void *arg)
{
	rdma_destroy_event_channel(arg);
	return NULL;
}

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len);

/* In the place of the C library's, by the linker's --wrap. */
ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	struct late *l = ends_before_read;
	pthread_t t;

	if (l) {
		ends_before_read = NULL;
		pthread_create(&t, NULL, end_channel, l->ch);
		pthread_join(t, NULL);
		atomic_store(&l->ended, true);
	}
	return __real_read(fd, buf, len);
}

/* The library writes by the first of them; built for ThreadSanitizer, by the
 * second. */
long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);

long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	struct slow_write *w = n == SYS_write ? writes_slowly : NULL;
	long rc;

	if (w)
		pause_writer(w);
	rc = __real_syscall(n, a, b, c, d, e, f);
	if (w)
		pause_writer(w);
	return rc;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	struct slow_write *w = writes_slowly;
	ssize_t rc;

	if (w)
		pause_writer(w);
	rc = __real_write(fd, buf, len);
	if (w)
		pause_writer(w);
	return rc;
}

/* Has this memory been freed? */
static void *watched;
static bool is_freed;

void __real_free(void *p);
void __wrap_free(void *p);

void __wrap_free(void *p)
{
	is_freed |= p && p == watched;
	__real_free(p);
}
/* NOLINTEND(readability-identifier-naming) */

static void *too_late(void *arg)
{
	struct late *l = arg;
	struct rdma_cm_event *ev;

	ends_before_read = l->ends ? l : NULL;
	l->rc = rdma_get_cm_event(l->ch, &ev);
	l->error = errno;
	return NULL;
}

static void start(struct late *l)
{
	pthread_create(&l->thread, NULL, too_late, l);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* Repeated: a signal may come before the thread blocks. */
static void expect_interrupted(struct late *l)
{
	unsigned int tries = 0;

	do {
		assert_int_not_equal(tries++, 100);
		pthread_kill(l->thread, SIGUSR1);
		short_sleep();
	} while (pthread_tryjoin_np(l->thread, NULL) == EBUSY);
	assert_int_equal(l->rc, -1);
	assert_int_equal(l->error, EINTR);
}

static void expect_cancelled(struct late *l)
{
#if WITH_ASAN /* it does not see frames end by cancellation */
	expect_interrupted(l);
#else
	void *result;

	pthread_cancel(l->thread);
	pthread_join(l->thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
#endif
}

static void expect_refused(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_get_cm_event(ch, &ev), -1);
	assert_int_equal(errno, EBADF);
}

/* A thread that waits stays there until a signal, and so does one that comes
 * later; refused are the thread that destroyed the channel and a call that
 * would not have blocked. */
static void test_after_end(void **state)
{
	enum { BEFORE = 2, ALL = 4 };
	struct sigaction action = { .sa_handler = on_signal }, old;
	struct rdma_event_channel *nonblocking = rdma_create_event_channel();
	struct late l[ALL] = { 0 }, refused = { .ch = nonblocking };

	sigaction(SIGUSR1, &action, &old);
	fcntl(nonblocking->fd, F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < ALL; i++) {
		l[i].ch = rdma_create_event_channel();
		if (i < BEFORE)
			start(&l[i]);
	}
	short_sleep();
	rdma_destroy_event_channel(nonblocking);
	for (unsigned int i = 0; i < ALL; i++)
		rdma_destroy_event_channel(l[i].ch);
	for (unsigned int i = BEFORE; i < ALL; i++)
		start(&l[i]);
	short_sleep();
	for (unsigned int i = 0; i < ALL; i++) {
		assert_int_equal(pthread_tryjoin_np(l[i].thread, NULL), EBUSY);
		expect_refused(l[i].ch);
	}
	expect_refused(nonblocking);
	start(&refused);
	pthread_join(refused.thread, NULL);
	assert_int_equal(refused.rc, -1);
	assert_int_equal(refused.error, EBADF);
	expect_interrupted(&l[0]);
	expect_cancelled(&l[1]);
	expect_interrupted(&l[2]);
	expect_cancelled(&l[3]);
	sigaction(SIGUSR1, &old, NULL);
}

/* A thread has looked up the descriptor when the channel ends. */
static void test_ends_before_read(void **state)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	struct late l = { .ch = rdma_create_event_channel(), .ends = true };

	sigaction(SIGUSR1, &action, &old);
	start(&l);
	while (!atomic_load(&l.ended))
		short_sleep();
	short_sleep();
	assert_int_equal(pthread_tryjoin_np(l.thread, NULL), EBUSY);
	expect_interrupted(&l);
	sigaction(SIGUSR1, &old, NULL);
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
			int status, uint64_t arg);

static void post(struct rdma_cm_id *id)
{
	assert_int_equal(
		rdma_write_cm_event(id, (enum rdma_cm_event_type)18, 0, 0), 0);
}

static void *post_slowly(void *arg)
{
	struct slow_write *w = arg;

	writes_slowly = w;
	post(w->id);
	writes_slowly = NULL;
	return NULL;
}

/* While the channel is readable there is an event: how many there were. */
static unsigned int take_readable(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	unsigned int n = 0;

	while (poll(&p, 1, 0) == 1) {
		assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
		rdma_ack_cm_event(ev);
		n++;
	}
	return n;
}

/* Of two events the second is queued before it is counted. */
static void test_late_count(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct slow_write w;
	unsigned int taken;
	pthread_t thread;

	sem_init(&w.reached, 0, 0);
	sem_init(&w.go, 0, 0);
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_create_id(ch, &w.id, NULL, RDMA_PS_TCP), 0);
	post(w.id);
	pthread_create(&thread, NULL, post_slowly, &w);
	sem_wait(&w.reached);
	taken = take_readable(ch);
	sem_post(&w.go);
	sem_wait(&w.reached);
	taken += take_readable(ch);
	sem_post(&w.go);
	pthread_join(thread, NULL);
	taken += take_readable(ch);
	assert_int_equal(taken, 2);
	rdma_destroy_id(w.id);
	rdma_destroy_event_channel(ch);
	sem_destroy(&w.reached);
	sem_destroy(&w.go);
}

enum { KEPT = 64 }; /* after their end, by the library */

/* Channels of synchronous ids take no places of applications' ones. */
static void test_kept(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	rdma_destroy_event_channel(ch);
	for (unsigned int i = 0; i < KEPT; i++) {
		assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP),
				 0);
		rdma_destroy_id(id);
	}
	expect_refused(ch);
}

/* The library does not wait for a thread that was cancelled. */
static void test_freed(void **state)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	struct late l = { .ch = rdma_create_event_channel() };

	sigaction(SIGUSR1, &action, &old);
	start(&l);
	short_sleep();
	rdma_destroy_event_channel(l.ch);
	expect_cancelled(&l);
	sigaction(SIGUSR1, &old, NULL);
	watched = l.ch;
	is_freed = false;
	for (unsigned int i = 0; i < KEPT; i++)
		rdma_destroy_event_channel(rdma_create_event_channel());
	watched = NULL;
	assert_true(is_freed);
}

/* The allocator would notice if the first were given back twice. */
static void test_twice(void **state)
{
	struct rdma_event_channel *ch[KEPT + 2];

	for (unsigned int i = 0; i < KEPT + 2; i++)
		ch[i] = rdma_create_event_channel();
	rdma_destroy_event_channel(ch[0]);
	for (unsigned int i = 0; i < KEPT + 2; i++)
		rdma_destroy_event_channel(ch[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_end),
		cmocka_unit_test(test_ends_before_read),
		cmocka_unit_test(test_late_count),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_freed),
		cmocka_unit_test(test_twice),
	};

	const struct CMUnitTest with_cm[] = {
#ifndef __SANITIZE_THREAD__ /* it sees no locks of a thread that is cancelled */
		cmocka_unit_test(test_after_end),  cmocka_unit_test(test_freed),
#endif
		cmocka_unit_test(test_late_count), cmocka_unit_test(test_kept),
		cmocka_unit_test(test_twice),
	};
	struct ur_cmt *t;

	if (!own_net_enter())
		return UNIT_SKIP;
	/* Where threads that wait do the CM thread's work, too. */
	return cmocka_run_group_tests(tests, NULL, NULL) || ur_cmt_get(&t) ||
	       cmocka_run_group_tests(with_cm, NULL, NULL);
}
