/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An owner and an importer by their sockets, both in this process; the thread
 * of the test stands for both watchers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/import_msg.h"
#include "engine/internal.h"

static const uint8_t token[UR_IMPORT_TOKEN] = "of the context";
static const uint8_t other[UR_IMPORT_TOKEN] = "of another";

static char name[UR_IMPORT_NAME];
static _Atomic bool stop;
static _Atomic uint32_t changes, losses, ends;
static struct ur_import_object last;
static struct ur_import_link *_Atomic close_in_hook;

/* Regions 1 to 9 are there, 5 is of a file. */
static int describe(const uint8_t t[UR_IMPORT_TOKEN], uint32_t kind,
		    uint32_t handle, struct ur_import_object *out, int *fd)
{
	if (memcmp(t, token, sizeof(token)) != 0 || kind != UR_IMPORT_MR ||
	    handle < 1 || handle > 9)
		return -ENOENT;
	*out = (struct ur_import_object){ .kind = kind,
					  .handle = handle,
					  .key = handle << 8 };
	if (handle == 5) {
		*fd = memfd_create("five", MFD_CLOEXEC);
		out->flags = UR_IMPORT_FILE;
	}
	return 0;
}

static int end(const uint8_t t[UR_IMPORT_TOKEN], uint32_t kind, uint32_t handle)
{
	ends++;
	return handle == 3 ? -EBUSY : 0;
}

static void changed(void *arg, const struct ur_import_object *o, int fd)
{
	struct ur_import_link *l = atomic_exchange(&close_in_hook, NULL);

	last = *o;
	changes++;
	if (l)
		ur_import_close(l);
}

static void lost(void *arg)
{
	losses++;
}

static const struct ur_import_hooks hooks = {
	.describe = describe,
	.end = end,
	.changed = changed,
	.lost = lost,
};

/* The real one is not there; ours looks by itself. */
void ur_watcher_wake(void)
{
}

static void *watcher(void *arg)
{
	struct pollfd fds[UR_IMPORT_FDS];

	while (!stop) {
		unsigned int n = ur_import_fds(fds);

		if (poll(fds, n, 5) > 0)
			ur_import_work(fds, n);
	}
	return NULL;
}

static pthread_t thread;

static int set_up(void **state)
{
	stop = false;
	changes = 0;
	losses = 0;
	ends = 0;
	assert_int_equal(ur_import_serve(&hooks, name), 0);
	assert_int_equal(pthread_create(&thread, NULL, watcher, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	stop = true;
	pthread_join(thread, NULL);
	ur_import_abandon();
	return 0;
}

static struct ur_import_link *open_link(const uint8_t t[UR_IMPORT_TOKEN])
{
	struct ur_import_link *l;

	assert_int_equal(ur_import_open(name, t, &hooks, NULL, &l), 0);
	return l;
}

static void what_is_there_is_told(void **state)
{
	struct ur_import_link *l = open_link(token);
	struct ur_import_object o;
	int fd, may;

	assert_int_equal(ur_import_ask(l, UR_IMPORT_MR, 4, &o, &fd), 0);
	assert_int_equal(o.key, 0x400);
	assert_int_equal(fd, -1);
	assert_int_equal(ur_import_ask(l, UR_IMPORT_MR, 5, &o, &fd), 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ur_import_ask(l, UR_IMPORT_MR, 10, &o, &fd), -ENOENT);
	assert_int_equal(ur_import_ask(l, 99, 4, &o, &fd), -ENOENT);
	assert_int_equal(ur_import_end(l, UR_IMPORT_MR, 3), -EBUSY);
	assert_int_equal(ur_import_end(l, UR_IMPORT_MR, 4), 0);
	assert_int_equal(ends, 2);
	assert_int_equal(ur_import_lender(l, &may)->pid, getpid());
	assert_int_equal(may, 0);
	ur_import_close(l);
}

static void of_another_context_there_is_nothing(void **state)
{
	struct ur_import_link *l = open_link(other);
	struct ur_import_object o;
	int fd;

	assert_int_equal(ur_import_ask(l, UR_IMPORT_MR, 4, &o, &fd), -ENOENT);
	ur_import_close(l);
}

static void news_come_before_tell_returns(void **state)
{
	struct ur_import_link *a = open_link(token), *b = open_link(token);
	struct ur_import_link *c = open_link(other);
	const struct ur_import_object o = { .kind = UR_IMPORT_MR,
					    .handle = 7,
					    .flags = UR_IMPORT_GONE };

	ur_import_tell(token, &o, -1, true);
	assert_int_equal(changes, 2);
	assert_int_equal(last.handle, 7);
	/* Confirmations that nobody waits for do not pass for later ones. */
	for (int i = 0; i < 20; i++)
		ur_import_tell(token, &o, -1, i % 3 == 0);
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(changes, 44);
	ur_import_close(a);
	ur_import_close(b);
	ur_import_close(c);
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(changes, 44);
}

static void a_link_may_be_closed_by_its_hook(void **state)
{
	struct ur_import_link *l = open_link(token);
	const struct ur_import_object o = { .kind = UR_IMPORT_PD };

	atomic_store(&close_in_hook, l);
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(changes, 1);
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(changes, 1);
}

static int dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path + 1, name, strlen(name));
	assert_int_equal(
		connect(fd, (void *)&a,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(name))),
		0);
	return fd;
}

static void must_hang_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_true(recv(fd, &c, 1, MSG_DONTWAIT) <= 0);
	close(fd);
}

static void who_speaks_otherwise_is_hung_up_on(void **state)
{
	struct ur_import_msg m = { .type = UR_IMPORT_ASK,
				   .version = UR_IMPORT_VERSION };
	int fd = dial();

	assert_int_equal(send(fd, "hello", 5, 0), 5);
	must_hang_up(fd);
	fd = dial(); /* no greeting */
	assert_int_equal(ur_import_send(fd, &m, -1), 0);
	must_hang_up(fd);
	fd = dial();
	m.type = UR_IMPORT_HELLO;
	m.version++;
	assert_int_equal(ur_import_send(fd, &m, 0), 0);
	must_hang_up(fd);
	what_is_there_is_told(state);
}

/* The page by which it is shut out says so. */
static void who_does_not_confirm_is_shut_out(void **state)
{
	struct ur_import_msg m = { .type = UR_IMPORT_HELLO,
				   .version = UR_IMPORT_VERSION,
				   .news = 1 };
	const struct ur_import_object o = { .kind = UR_IMPORT_MR };
	int page_fd, fd = dial();
	_Atomic uint32_t *page;

	memcpy(m.token, token, sizeof(token));
	assert_int_equal(ur_import_send(fd, &m, -1), 0);
	assert_int_equal(ur_import_recv(fd, &m, &page_fd, 10000), 0);
	assert_int_equal(m.error, 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, page_fd, 0),
			 MAP_FAILED);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, page_fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(*page, 0);
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(*page, 1);
	assert_int_equal(ur_import_recv(fd, &m, &page_fd, 10000), 0);
	assert_int_equal(m.type, UR_IMPORT_NEWS);
	must_hang_up(fd);
	munmap((void *)(uintptr_t)page, 4096);
}

static void there_is_room_for_so_many(void **state)
{
	int fds[UR_IMPORT_CONNS + 1];
	struct ur_import_link *l;

	for (unsigned int i = 0; i < UR_IMPORT_CONNS; i++)
		fds[i] = dial();
	must_hang_up(dial());
	assert_int_not_equal(ur_import_open(name, token, &hooks, NULL, &l), 0);
	for (unsigned int i = 0; i < UR_IMPORT_CONNS; i++)
		close(fds[i]);
	while (ur_import_open(name, token, &hooks, NULL, &l))
		usleep(1000);
	ur_import_close(l);
}

static void nobody_listens_there(void **state)
{
	const char nobody[UR_IMPORT_NAME] = "urnic-import-nobody";
	struct ur_import_link *l;

	assert_int_equal(ur_import_open(nobody, token, &hooks, NULL, &l),
			 -EOPNOTSUPP);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_there_is_told),
		TEST(of_another_context_there_is_nothing),
		TEST(news_come_before_tell_returns),
		TEST(a_link_may_be_closed_by_its_hook),
		TEST(who_speaks_otherwise_is_hung_up_on),
		TEST(who_does_not_confirm_is_shut_out),
		TEST(there_is_room_for_so_many),
		TEST(nobody_listens_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
