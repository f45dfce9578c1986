/* SPDX-License-Identifier: BSD-2-Clause */
/* One client used by many threads while its daemon is killed again and again;
 * also for the thread sanitizer. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "world.h"

#define THREADS 4
#define ROUNDS	60

static struct ur_client *client;
static atomic_int owner[1024];
static atomic_int failures;
static atomic_bool stop;

static size_t report(void *arg, char *buf, size_t cap)
{
	return (size_t)snprintf(buf, cap, "{}");
}

static void *taker(void *arg)
{
	uint32_t slot;
	int fd;

	for (int i = 0; i < ROUNDS; i++) {
		int err = ur_client_slot(client, &slot, &fd);

		if (err) {
			fprintf(stderr, "slot: error %d\n", err);
			failures++;
			continue;
		}
		if (atomic_exchange(&owner[slot], 1)) {
			fprintf(stderr, "slot %u: two holders\n", slot);
			failures++;
		}
		sleep_ms(1);
		close(fd);
		atomic_store(&owner[slot], 0);
		ur_client_slot_put(client, slot);
	}
	return NULL;
}

static void *servant(void *arg)
{
	while (!atomic_load(&stop)) {
		struct pollfd p = { .fd = ur_client_fd(client),
				    .events = POLLIN };

		if (poll(&p, 1, 20) > 0)
			ur_client_service(client);
	}
	return NULL;
}

static void threads_and_deaths(void **state)
{
	pthread_t t[THREADS], s;

	assert_int_equal(ur_client_open(&client, report, NULL), 0);
	pthread_create(&s, NULL, servant, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, taker, NULL);
	for (int i = 0; i < 3; i++) {
		sleep_ms(60);
		daemon_kill();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(failures, 0);
	assert_true(daemon_wait_used(0, WAIT_MS));
	atomic_store(&stop, true);
	pthread_join(s, NULL);
	ur_client_close(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(threads_and_deaths, world_setup,
						world_teardown),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
