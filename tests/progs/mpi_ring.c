/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring and an all-reduce of MPI, whose results are checked.
 *
 *     mpirun -np N mpi_ring [TURNS]
 *
 * A token of several sizes goes around TURNS times, and each rank adds to all
 * of it; then all ranks sum vectors.  Rank 0 says "ring and all-reduce of N
 * ranks are right".
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX (1 << 18)

static int rank, ranks;
static int64_t token[WORDS_MAX];
static int64_t sum[WORDS_MAX];

static _Noreturn void fail(const char *what, int words)
{
	fprintf(stderr, "rank %d: %s of %d words is wrong\n", rank, what,
		words);
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static void pass(int words, int from, int to)
{
	if (from >= 0)
		MPI_Recv(token, words, MPI_INT64_T, from, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	for (int i = 0; i < words; i++)
		token[i] += i + rank;
	if (to >= 0)
		MPI_Send(token, words, MPI_INT64_T, to, 1, MPI_COMM_WORLD);
}

static void ring(int words, int turns)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	int64_t all = (int64_t)ranks * (ranks - 1) / 2;

	for (int i = 0; i < words; i++)
		token[i] = 0;
	for (int t = 0; t < turns; t++)
		pass(words, rank == 0 && t == 0 ? -1 : last,
		     rank == ranks - 1 && t == turns - 1 ? -1 : next);
	for (int i = 0; i < words && rank == ranks - 1; i++)
		if (token[i] != turns * ((int64_t)i * ranks + all))
			fail("a ring", words);
}

static void reduce(int words)
{
	int64_t all = (int64_t)ranks * (ranks - 1) / 2;

	for (int i = 0; i < words; i++)
		token[i] = (int64_t)i * i + rank;
	MPI_Allreduce(token, sum, words, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < words; i++)
		if (sum[i] != (int64_t)i * i * ranks + all)
			fail("an all-reduce", words);
}

int main(int argc, char **argv)
{
	static const int words[] = { 1, 1000, WORDS_MAX };
	int turns = argc > 1 ? atoi(argv[1]) : 3;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		ring(words[i], turns);
		reduce(words[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("ring and all-reduce of %d ranks are right\n", ranks);
	MPI_Finalize();
	return 0;
}
