/* SPDX-License-Identifier: BSD-2-Clause */
/* riomap() and riowrite() at their limits: rsocket_iomap ADDRESS. */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "rsocket_pair.h"

enum { ROOM = 4, SIZE = 300000 };

static char memory[SIZE];
static char from[SIZE];

/* The list of mappings is the writer's, so both ask for room. */
static void make_mapping_pair(int fd[2])
{
	fd[0] = rsocket(at.sa.sa_family, SOCK_STREAM, 0);
	set_int(fd[0], SOL_RDMA, RDMA_IOMAPSIZE, ROOM);
	MUST(rconnect(fd[0], &at.sa, at_len) == 0);
	MUST((fd[1] = raccept(lfd, NULL, NULL)) >= 0);
	MUST(get_int(fd[1], SOL_RDMA, RDMA_IOMAPSIZE) == ROOM);
}

/* What was mapped is known to the other side from here on. */
static void tell(const int fd[2])
{
	char b;

	send_all(fd[0], "m", 1);
	recv_all(fd[1], &b, 1);
}

/* What was written is there from here on. */
static void settle(const int fd[2])
{
	char b;

	send_all(fd[1], "w", 1);
	recv_all(fd[0], &b, 1);
}

static void wrong_arguments(void)
{
	int fd[2], fresh = rsocket(at.sa.sa_family, SOCK_STREAM, 0);

	MUST_ERR(riomap(fresh, memory, 100, PROT_WRITE, 0, 0), EINVAL);
	MUST_ERR((ssize_t)riowrite(fresh, from, 1, 0, 0), ENOTCONN);
	MUST(rclose(fresh) == 0);
	MUST_ERR(riomap(12345, memory, 100, PROT_WRITE, 0, 0), EBADF);
	make_mapping_pair(fd);
	MUST_ERR(riomap(fd[0], memory, 0, PROT_WRITE, 0, 0), EINVAL);
	MUST_ERR(riomap(fd[0], memory, 100, PROT_EXEC, 0, 0), EINVAL);
	MUST_ERR(riounmap(fd[0], memory, 100), EINVAL);
	MUST_ERR((ssize_t)riowrite(fd[1], from, 1, 0, 0), EINVAL);
	MUST(riowrite(fd[1], from, 0, 0, 0) == 0);
	close_pair(fd);
}

static void as_many_as_there_is_room(void)
{
	int fd[2];

	make_mapping_pair(fd);
	for (int i = 0; i < ROOM; i++)
		MUST(riomap(fd[0], memory + i * 1000, 1000, PROT_WRITE, 0,
			    i * 1000) == i * 1000);
	MUST_ERR(riomap(fd[0], memory + 9000, 1000, PROT_WRITE, 0, 9000),
		 ENOMEM);
	/* Those that the peer cannot write take no room. */
	MUST(riomap(fd[0], memory + 8000, 1000, PROT_NONE, 0, 8000) == 8000);
	MUST(riounmap(fd[0], memory, 1000) == 0);
	MUST(riomap(fd[0], memory + 9000, 1000, PROT_WRITE, 0, 9000) == 9000);
	tell(fd);
	memset(memory, 0, sizeof(memory));
	MUST(riowrite(fd[1], from + 9000, 1000, 9000, 0) == 1000);
	MUST_ERR((ssize_t)riowrite(fd[1], from, 1, 500, 0), EINVAL);
	settle(fd);
	MUST(!memcmp(memory + 9000, from + 9000, 1000));
	close_pair(fd);
}

/* Over the seam of two mappings, and no further than the last. */
static void across(void)
{
	const off_t high = (off_t)1 << 40;
	int fd[2];

	make_mapping_pair(fd);
	memset(memory, 0, sizeof(memory));
	MUST(riomap(fd[0], memory + 1000, 1000, PROT_WRITE, 0, high) == high);
	MUST(riomap(fd[0], memory, 1000, PROT_WRITE, 0, high + 1000) ==
	     high + 1000);
	tell(fd);
	MUST(riowrite(fd[1], from, 2500, high, 0) == 2000);
	settle(fd);
	MUST(!memcmp(memory + 1000, from, 1000));
	MUST(!memcmp(memory, from + 1000, 1000));
	MUST(memory[2000] == 0);
	MUST(riowrite(fd[1], "Z", 1, high + 1999, 0) == 1);
	MUST_ERR((ssize_t)riowrite(fd[1], from, 1, high + 2000, 0), EINVAL);
	MUST_ERR((ssize_t)riowrite(fd[1], from, 1, high - 1, 0), EINVAL);
	settle(fd);
	MUST(memory[999] == 'Z');
	close_pair(fd);
}

/* More than the send buffer holds, at the memory's own address. */
static void large(void)
{
	off_t where = (off_t)(uintptr_t)memory;
	int fd[2];

	make_mapping_pair(fd);
	memset(memory, 0, sizeof(memory));
	MUST(riomap(fd[0], memory, SIZE, PROT_WRITE, 0, -1) == where);
	tell(fd);
	for (size_t done = 0; done < SIZE;) {
		size_t n = riowrite(fd[1], from + done, SIZE - done,
				    where + (off_t)done, 0);

		MUST(n > 0 && n <= SIZE - done);
		done += n;
	}
	settle(fd);
	MUST(!memcmp(memory, from, SIZE));
	MUST(riounmap(fd[0], memory, SIZE) == 0);
	/* Writing where nothing is any more breaks the connection. */
	MUST(riowrite(fd[1], from, 100, where, 0) == 100);
	while (rsend(fd[1], "x", 1, 0) == 1)
		;
	MUST(errno == EIO || errno == ECONNRESET);
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	for (int i = 0; i < SIZE; i++)
		from[i] = (char)(i * 7 + i / 251);
	listen_somewhere(argv[1]);
	MUST(get_int(lfd, SOL_RDMA, RDMA_IOMAPSIZE) == 0);
	set_int(lfd, SOL_RDMA, RDMA_IOMAPSIZE, ROOM);
	wrong_arguments();
	as_many_as_there_is_room();
	across();
	large();
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
