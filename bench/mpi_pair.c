/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ranks of MPI: ping-pong, or windows of 64 messages that are answered by
 * one, as the usual programs for MPI measure it.
 *
 *     mpirun -np 2 mpi_pair lat|bw SECONDS SIZE[,SIZE...]
 *
 * One line of JSON: for each size microseconds one way (median, percentiles),
 * or millions of messages a second.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

/* Larger messages are received into one buffer. */
#define SHARE ((size_t)64 << 10)

static int rank;
static char *out;
static char *in;

static void ping_pong(int size)
{
	if (rank == 0)
		MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	MPI_Recv(in, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static void window(int size)
{
	MPI_Request request[PAIR_WINDOW];
	unsigned int n = pair_window((size_t)size);
	size_t step = (size_t)size > SHARE ? 0 : (size_t)size;
	char ack = 0;

	for (size_t i = 0; i < n; i++)
		if (rank == 0)
			MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
				  &request[i]);
		else
			MPI_Irecv(in + i * step, size, MPI_BYTE, 0, 1,
				  MPI_COMM_WORLD, &request[i]);
	MPI_Waitall((int)n, request, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(&ack, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	else
		MPI_Send(&ack, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

/* n turns; their seconds, in both ranks those of rank 0. */
static double turns(const struct pair_way *way, size_t size, size_t n,
		    uint32_t *sample_ns)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	double before = start;

	for (size_t i = 0; i < n; i++) {
		way->turn((int)size);
		if (sample_ns) {
			double now = MPI_Wtime();

			sample_ns[i] = (uint32_t)((now - before) * 1e9);
			before = now;
		}
	}
	double took = MPI_Wtime() - start;

	MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return took;
}

int main(int argc, char **argv)
{
	static const struct pair_way ways[] = {
		{ "lat", ping_pong, false },
		{ "bw", window, true },
	};
	struct pair_run run = { .turns = turns };

	if (!pair_arguments(&run, ways, 2, argc, argv)) {
		fprintf(stderr, "mpi_pair lat|bw SECONDS SIZE[,SIZE...]\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	out = calloc(1, run.most);
	in = calloc(1, run.most < SHARE * PAIR_WINDOW ? SHARE * PAIR_WINDOW
						      : run.most);
	if (!out || !in)
		return 1;
	pair_measure(&run, rank == 0);
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
