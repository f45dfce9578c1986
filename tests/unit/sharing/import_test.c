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
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "sharing/import_msg.h"

static const uint8_t token[UR_IMPORT_TOKEN] = "of the context";
static const uint8_t other[UR_IMPORT_TOKEN] = "of another";

static char name[UR_IMPORT_NAME];
static _Atomic bool stop;
static _Atomic uint32_t changes, losses, ends;
static struct ur_import_object last;
static struct ur_import_link *_Atomic close_in_hook;
static _Atomic bool linger_in_hook;
static const _Atomic uint32_t *page; /* by which we are shut out */

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
	struct ur_import_link *l;

	last = *o;
	changes++;
	while (linger_in_hook)
		usleep(1000);
	l = atomic_exchange(&close_in_hook, NULL);
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

static void watcher_start(void)
{
	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, watcher, NULL), 0);
}

static void watcher_stop(void)
{
	stop = true;
	pthread_join(thread, NULL);
}

static int set_up(void **state)
{
	changes = 0;
	losses = 0;
	ends = 0;
	assert_int_equal(ur_import_serve(&hooks, name), 0);
	watcher_start();
	return 0;
}

static int tear_down(void **state)
{
	if (page)
		munmap((void *)(uintptr_t)page, 4096);
	page = NULL;
	watcher_stop();
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
	/* Confirmations that no thread waits for do not pass for later ones. */
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

/* No thread waits for them, and they do not block one another. */
static void unwaited_news_do_not_pile_up(void **state)
{
	struct ur_import_link *l = open_link(token);
	const struct ur_import_object o = { .kind = UR_IMPORT_PD };

	for (uint32_t i = 1; i <= 2000; i++) {
		ur_import_tell(token, &o, -1, false);
		while (i % 50 == 0 && changes < i && !losses)
			usleep(1000);
	}
	ur_import_tell(token, &o, -1, true);
	assert_int_equal(losses, 0);
	assert_int_equal(changes, 2001);
	ur_import_close(l);
}

static socklen_t place(struct sockaddr_un *a, const char *at)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(a->sun_path + 1, at, strlen(at));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(at));
}

static int dial(void)
{
	struct sockaddr_un a;
	socklen_t len = place(&a, name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (void *)&a, len), 0);
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

static void send_two(int fd, int passed)
{
	const struct ur_import_msg m = { .type = UR_IMPORT_HELLO,
					 .version = UR_IMPORT_VERSION };
	const int fds[2] = { passed, passed };
	struct iovec iov = { (void *)(uintptr_t)&m, sizeof(m) };
	union {
		struct cmsghdr c;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = { .c = { .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS,
			     .cmsg_len = CMSG_LEN(sizeof(fds)) } };
	const struct msghdr h = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.c), fds, sizeof(fds));
	assert_int_equal(sendmsg(fd, &h, 0), sizeof(m));
}

/* The pipe ends when the last descriptor of its other end is closed. */
static void descriptors_too_many_are_closed(void **state)
{
	int fd = dial(), ends_of[2];
	struct pollfd p;
	char c;

	assert_int_equal(pipe2(ends_of, O_CLOEXEC), 0);
	send_two(fd, ends_of[1]);
	close(ends_of[1]);
	must_hang_up(fd);
	p = (struct pollfd){ .fd = ends_of[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(read(ends_of[0], &c, 1), 0);
	close(ends_of[0]);
}

/* As another user: 0 if it is hung up on before it says anything. */
static int stranger(void)
{
	struct pollfd p = { .events = POLLIN };
	char c;

	if (setresuid(65534, 65534, 65534))
		return 1;
	p.fd = dial();
	return poll(&p, 1, 5000) == 1 && recv(p.fd, &c, 1, 0) <= 0 ? 0 : 2;
}

static void strangers_take_no_room(void **state)
{
	pid_t pid;
	int status;

	if (geteuid() != 0)
		SKIP_BECAUSE("needs root to be another user");
	pid = fork();
	if (pid == 0)
		_exit(stranger());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The thread that runs the hook is not there. */
static void a_child_does_not_wait_for_the_hook(void **state)
{
	struct ur_import_link *l = open_link(token);
	const struct ur_import_object o = { .kind = UR_IMPORT_PD };
	pid_t pid;
	int status;

	linger_in_hook = true;
	ur_import_tell(token, &o, -1, false);
	while (changes == 0)
		usleep(1000);
	pid = fork();
	if (pid == 0) {
		alarm(10);
		ur_import_abandon();
		ur_import_close(l);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	linger_in_hook = false;
	ur_import_close(l);
}

/* ---- an owner of our own ---- */

static int page_make(void)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	return fd;
}

static void reply(int sock, struct ur_import_msg *m, uint32_t seq, int fd)
{
	m->type = UR_IMPORT_REPLY;
	m->seq = seq;
	ur_import_send(sock, m, fd);
	if (fd >= 0)
		close(fd);
}

static int listen_at(const char at[UR_IMPORT_NAME])
{
	struct sockaddr_un a;
	socklen_t len = place(&a, at);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(s, (void *)&a, len), 0);
	assert_int_equal(listen(s, 4), 0);
	return s;
}

static void greet_importer(int listener, int *news, int *ask)
{
	struct ur_import_msg m;
	int fd;

	for (int i = 0; i < 2; i++) {
		int *sock = i == 0 ? news : ask;

		*sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (ur_import_recv(*sock, &m, &fd, 5000) == 0)
			reply(*sock, &m, m.seq, i == 0 ? page_make() : -1);
	}
}

/* To one question an old answer and, late, the right one. */
static void *slow_owner(void *arg)
{
	struct ur_import_msg m;
	int fd, ask = -1, news = -1;

	greet_importer(*(int *)arg, &news, &ask);
	if (ur_import_recv(ask, &m, &fd, 5000) == 0) {
		uint32_t seq = m.seq;

		m.o.key = 1;
		reply(ask, &m, seq - 1, page_make());
		usleep(300000);
		m.o.key = 2;
		reply(ask, &m, seq, -1);
	}
	while (ur_import_recv(ask, &m, &fd, 1000) == -EAGAIN)
		;
	close(ask);
	close(news);
	return NULL;
}

static void nothing(int sig)
{
}

static void neither_signals_nor_old_answers_matter(void **state)
{
	const char at[UR_IMPORT_NAME] = "urnic-import-slow";
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction act = { .sa_handler = nothing };
	int fd, s = listen_at(at);
	struct ur_import_object o;
	struct ur_import_link *l;
	pthread_t owner;

	assert_int_equal(pthread_create(&owner, NULL, slow_owner, &s), 0);
	assert_int_equal(ur_import_open(at, token, &hooks, NULL, &l), 0);
	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(ur_import_ask(l, UR_IMPORT_MR, 4, &o, &fd), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(o.key, 2);
	assert_int_equal(fd, -1);
	ur_import_close(l);
	pthread_join(owner, NULL);
	close(s);
}

static void *fleeting_owner(void *arg)
{
	const struct ur_import_msg m = { .type = UR_IMPORT_NEWS,
					 .version = UR_IMPORT_VERSION };
	int ask = -1, news = -1;

	greet_importer(*(int *)arg, &news, &ask);
	ur_import_send(news, &m, -1);
	close(ask);
	close(news);
	return NULL;
}

/* What the hooks work on has gone with the link. */
static void a_hook_that_closes_is_the_last_one(void **state)
{
	const char at[UR_IMPORT_NAME] = "urnic-import-fleeting";
	int s = listen_at(at);
	struct ur_import_link *l;
	pthread_t owner;

	linger_in_hook = true;
	assert_int_equal(pthread_create(&owner, NULL, fleeting_owner, &s), 0);
	assert_int_equal(ur_import_open(at, token, &hooks, NULL, &l), 0);
	while (changes == 0)
		usleep(1000);
	pthread_join(owner, NULL);
	atomic_store(&close_in_hook, l);
	linger_in_hook = false;
	watcher_stop();
	assert_int_equal(changes, 1);
	assert_int_equal(losses, 0);
	watcher_start();
	close(s);
}

/* For race detectors. */
static void *tell_often(void *arg)
{
	const struct ur_import_object o = { .kind = UR_IMPORT_PD };

	while (!atomic_load((_Atomic bool *)arg))
		ur_import_tell(token, &o, -1, true);
	return NULL;
}

static void who_comes_while_others_are_told(void **state)
{
	_Atomic bool enough = false;
	pthread_t teller;

	assert_int_equal(pthread_create(&teller, NULL, tell_often, &enough), 0);
	for (int i = 0; i < 20; i++)
		ur_import_close(open_link(token));
	enough = true;
	pthread_join(teller, NULL);
	assert_int_equal(losses, 0);
}

/* ---- an importer of our own ---- */

static int greet_for_news(void)
{
	struct ur_import_msg m = { .type = UR_IMPORT_HELLO,
				   .version = UR_IMPORT_VERSION,
				   .news = 1 };
	int page_fd, fd = dial();

	memcpy(m.token, token, sizeof(token));
	assert_int_equal(ur_import_send(fd, &m, -1), 0);
	assert_int_equal(ur_import_recv(fd, &m, &page_fd, 10000), 0);
	assert_int_equal(m.error, 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, page_fd, 0),
			 MAP_FAILED);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, page_fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	close(page_fd);
	return fd;
}

static void *tell_and_wait(void *arg)
{
	const struct ur_import_object o = { .kind = UR_IMPORT_MR, .handle = 1 };

	ur_import_tell(token, &o, -1, true);
	return NULL;
}

static void hear_of(int fd, uint32_t handle, struct ur_import_msg *m)
{
	int passed;

	assert_int_equal(ur_import_recv(fd, m, &passed, 5000), 0);
	assert_int_equal(m->type, UR_IMPORT_NEWS);
	assert_int_equal(m->o.handle, handle);
}

/* A thread that may not wait leaves its events to one that does. */
static void the_watcher_does_not_wait_for_a_waiter(void **state)
{
	const struct ur_import_object o = { .kind = UR_IMPORT_MR, .handle = 2 };
	int fd = greet_for_news();
	struct ur_import_msg m;
	pthread_t teller;
	uint64_t t0;

	assert_int_equal(pthread_create(&teller, NULL, tell_and_wait, NULL), 0);
	hear_of(fd, 1, &m);
	t0 = ur_clock_ns();
	ur_import_tell(token, &o, -1, false);
	assert_true(ur_clock_ns() - t0 <
		    UR_IMPORT_PATIENCE_MS / 2 * 1000000ull);
	reply(fd, &m, m.seq, -1);
	pthread_join(teller, NULL);
	hear_of(fd, 2, &m);
	close(fd);
}

static const struct ur_import_object some = { .kind = UR_IMPORT_MR };

/* The page by which it is shut out says so. */
static void who_does_not_confirm_is_shut_out(void **state)
{
	struct ur_import_msg m;
	int fd = greet_for_news();

	assert_int_equal(*page, 0);
	ur_import_tell(token, &some, -1, true);
	assert_int_equal(*page, 1);
	hear_of(fd, 0, &m);
	must_hang_up(fd);
}

static void *confirm_nonsense(void *arg)
{
	struct ur_import_msg m;
	int fd = *(int *)arg;

	hear_of(fd, 0, &m);
	assert_int_equal(send(fd, "well", 4, 0), 4);
	return NULL;
}

static void who_confirms_nonsense_is_shut_out(void **state)
{
	int fd = greet_for_news();
	pthread_t liar;

	assert_int_equal(pthread_create(&liar, NULL, confirm_nonsense, &fd), 0);
	ur_import_tell(token, &some, -1, true);
	assert_int_equal(*page, 1);
	pthread_join(liar, NULL);
	must_hang_up(fd);
}

/* Whatever the reason: here the kernel does not take the descriptor along. */
static void who_cannot_be_told_is_shut_out(void **state)
{
	int fd = greet_for_news(), none = dup(fd);

	close(none);
	ur_import_tell(token, &some, none, true);
	assert_int_equal(*page, 1);
	must_hang_up(fd);
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

/* Every number below the limit is taken. */
static void take_all_descriptors(int held[], int n)
{
	for (int i = 0; i < n; i++)
		held[i] = i ? dup(held[0]) : open("/dev/null", O_RDONLY);
}

struct shortage {
	struct rlimit old;
	int held[64];
};

static void shortage_begin(struct shortage *s)
{
	struct rlimit few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &s->old), 0);
	few = s->old;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	take_all_descriptors(s->held, 64);
}

static void shortage_end(const struct shortage *s)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s->old), 0);
	for (int i = 0; i < 64; i++)
		if (s->held[i] >= 0)
			close(s->held[i]);
}

/* A new importer is disconnected, and the watcher does not spin. */
static void without_descriptors_it_hangs_up(void **state)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct shortage s;
	struct sockaddr_un a;
	socklen_t len = place(&a, name);

	shortage_begin(&s);
	assert_int_equal(connect(fd, (void *)&a, len), 0);
	must_hang_up(fd);
	shortage_end(&s);
	what_is_there_is_told(state);
}

/* What came with it is lost, but it is no end of the connection. */
static void without_descriptors_messages_come(void **state)
{
	struct ur_import_msg m = { .type = UR_IMPORT_NEWS,
				   .version = UR_IMPORT_VERSION };
	int sock[2], fd = 7, rc;
	struct shortage s;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock), 0);
	assert_int_equal(ur_import_send(sock[0], &m, sock[0]), 0);
	assert_int_equal(ur_import_send(sock[0], &m, sock[0]), 0);
	shortage_begin(&s);
	rc = ur_import_recv(sock[1], &m, &fd, 0);
	shortage_end(&s);
	assert_int_equal(rc, 0);
	assert_int_equal(fd, -1);
	assert_int_equal(ur_import_recv(sock[1], &m, &fd, 0), 0);
	assert_true(fd >= 0);
	close(fd);
	close(sock[0]);
	close(sock[1]);
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
		TEST(unwaited_news_do_not_pile_up),
		TEST(who_speaks_otherwise_is_hung_up_on),
		TEST(descriptors_too_many_are_closed),
		TEST(strangers_take_no_room),
		TEST(a_child_does_not_wait_for_the_hook),
		TEST(neither_signals_nor_old_answers_matter),
		TEST(a_hook_that_closes_is_the_last_one),
		TEST(who_comes_while_others_are_told),
		TEST(the_watcher_does_not_wait_for_a_waiter),
		TEST(who_does_not_confirm_is_shut_out),
		TEST(who_confirms_nonsense_is_shut_out),
		TEST(who_cannot_be_told_is_shut_out),
		TEST(there_is_room_for_so_many),
		TEST(without_descriptors_it_hangs_up),
		TEST(without_descriptors_messages_come),
		TEST(nobody_listens_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
