/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that are no cancellation points. Of the verbs only those that
 * wait for an event are (pthreads(7), ibv_get_cq_event(3)): a thread that is
 * cancelled while it posts or polls would never release the lane's lock.
 * Otherwise they behave as the C library's, with -1 and errno.
 *
 * Under ThreadSanitizer the library's functions are used, since it derives
 * happens-before from them.
 */
#ifndef UR_BASE_SYS_H
#define UR_BASE_SYS_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define UR_SYS_BY_NAME
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UR_SYS_BY_NAME
#endif
#endif

#ifdef UR_SYS_BY_NAME
#define UR_SYS(name, ...) name(__VA_ARGS__)
#else
#define UR_SYS(name, ...) syscall(SYS_##name, __VA_ARGS__)
#endif

static inline ssize_t ur_sys_read(int fd, void *buf, size_t len)
{
	return UR_SYS(read, fd, buf, len);
}

static inline ssize_t ur_sys_write(int fd, const void *buf, size_t len)
{
	return UR_SYS(write, fd, buf, len);
}

static inline ssize_t ur_sys_recvfrom(int fd, void *buf, size_t len, int flags,
				      struct sockaddr *from, socklen_t *size)
{
	return UR_SYS(recvfrom, fd, buf, len, flags, from, size);
}

static inline ssize_t ur_sys_recv(int fd, void *buf, size_t len, int flags)
{
	return ur_sys_recvfrom(fd, buf, len, flags, NULL, NULL);
}

static inline ssize_t ur_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return UR_SYS(recvmsg, fd, m, flags);
}

static inline int ur_sys_recvmmsg(int fd, struct mmsghdr *m, unsigned int n,
				  int flags)
{
	return (int)UR_SYS(recvmmsg, fd, m, n, flags, NULL);
}

static inline ssize_t ur_sys_sendto(int fd, const void *buf, size_t len,
				    int flags, const struct sockaddr *to,
				    socklen_t size)
{
	return UR_SYS(sendto, fd, buf, len, flags, to, size);
}

static inline ssize_t ur_sys_send(int fd, const void *buf, size_t len,
				  int flags)
{
	return ur_sys_sendto(fd, buf, len, flags, NULL, 0);
}

static inline ssize_t ur_sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return UR_SYS(sendmsg, fd, m, flags);
}

static inline int ur_sys_sendmmsg(int fd, struct mmsghdr *m, unsigned int n,
				  int flags)
{
	return (int)UR_SYS(sendmmsg, fd, m, n, flags);
}

static inline int ur_sys_epoll_wait(int fd, struct epoll_event *ev, int n,
				    int ms)
{
#ifdef UR_SYS_BY_NAME
	return epoll_wait(fd, ev, n, ms);
#else
	return (int)syscall(SYS_epoll_pwait, fd, ev, n, ms, NULL, 0UL);
#endif
}

static inline int ur_sys_close(int fd)
{
	return (int)UR_SYS(close, fd);
}

/* t becomes the time that was left. */
static inline int ur_sys_ppoll(struct pollfd *fds, nfds_t n, struct timespec *t)
{
#ifdef UR_SYS_BY_NAME
	return ppoll(fds, n, t, NULL);
#else
	return (int)syscall(SYS_ppoll, fds, n, t, NULL, 0);
#endif
}

static inline int ur_sys_poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { .tv_sec = ms / 1000,
			      .tv_nsec = ms % 1000 * 1000000L };

	return ur_sys_ppoll(fds, n, ms < 0 ? NULL : &t);
}

/*
 * Reads one count of an eventfd without blocking, whatever its mode: RWF_NOWAIT.
 * Where preadv2() is refused it may block if another thread reads the count
 * between the two calls.
 */
static inline ssize_t ur_sys_read_now(int fd, const struct iovec *iov)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

#ifdef UR_SYS_BY_NAME
	n = preadv2(fd, iov, 1, -1, RWF_NOWAIT);
#else
	n = syscall(SYS_preadv2, fd, iov, 1UL, -1L, -1L, RWF_NOWAIT);
#endif
	if (n < 0 && (errno == ENOSYS || errno == EPERM) &&
	    ur_sys_poll(&p, 1, 0) > 0)
		n = ur_sys_read(fd, iov->iov_base, iov->iov_len);
	return n;
}

static inline int ur_sys_nanosleep(const struct timespec *t)
{
	return (int)UR_SYS(nanosleep, t, NULL);
}

/* Signal an eventfd, and take its signals back. */
static inline void ur_event_signal(int fd)
{
	uint64_t one = 1;

	(void)!ur_sys_write(fd, &one, sizeof(one));
}

static inline void ur_event_clear(int fd)
{
	uint64_t count;

	(void)!ur_sys_read(fd, &count, sizeof(count));
}

/* The set becomes readable with fd. 0 or -errno. */
static inline int ur_watch_fd(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

#endif
