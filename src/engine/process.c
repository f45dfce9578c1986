/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process has once: its adapters (one of each device, made by the first
 * open and kept to the end), its connection to urnicd, its watcher.  Nothing is
 * torn down at exit; threads die with the process, and urnicd takes the slots
 * back.
 *
 * fork(): the child inherits the memory, but no thread, and must not speak on
 * the parent's sockets.  So the child marks the adapters dead, closes its
 * copies of the descriptors (or urnicd and peers would not see the parent
 * end), and forgets them: an open makes new ones.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/capture.h"
#include "engine/device_faults.h"
#include "engine/faults.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/publish.h"
#include "engine/recorder.h"
#include "engine/report.h"
#include "engine/trace.h"
#include "ports/stream.h"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
/* Written under process_lock; an adapter that is there stays. */
static struct ur_adapter *_Atomic adapters[UR_MAX_DEVICES];
/* Inner: an adapter that makes a lane holds its own lock already. */
static pthread_mutex_t client_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_client *_Atomic the_client; /* written under client_lock */
/* Objects made before a fork() still point at them. */
static struct ur_adapter *inherited[UR_MAX_DEVICES] __attribute__((used));

struct ur_adapter *ur_process_adapter(uint32_t index)
{
	return atomic_load_explicit(&adapters[index], memory_order_acquire);
}

static void before_fork(void)
{
	pthread_mutex_lock(&process_lock);
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		ur_lock(&a->lock);
		ur_lock(&a->dev.lock);
		ur_lock(&a->mrs.lock);
	}
	pthread_mutex_lock(&client_lock);
	ur_xrc_before_fork();
	ur_streams_before_fork();
}

static void after_fork(void)
{
	ur_streams_after_fork();
	ur_xrc_after_fork();
	pthread_mutex_unlock(&client_lock);
	for (unsigned int k = UR_MAX_DEVICES; k-- > 0;) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		ur_unlock(&a->mrs.lock);
		ur_unlock(&a->dev.lock);
		ur_unlock(&a->lock);
	}
	pthread_mutex_unlock(&process_lock);
}

static void child_after_fork(void)
{
	struct ur_client *client = atomic_load(&the_client);

	after_fork();
	ur_capture_child();
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		ur_adapter_abandon(a);
		inherited[k] = a;
		atomic_store(&adapters[k], NULL);
	}
	ur_recorder_child();
	ur_publish_child();
	ur_report_child();
	ur_faults_child();
	if (client)
		ur_client_close(client);
	atomic_store(&the_client, NULL);
	ur_xrc_child();
	ur_streams_child();
	ur_watcher_abandon();
}

static void install_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork, child_after_fork);
}

/* A program may end right after its last completion, without destroying
 * anything. */
__attribute__((destructor)) static void settle_at_exit(void)
{
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (a)
			ur_adapter_settle(a);
	}
	ur_streams_leave();
	ur_publish_end();
	ur_recorder_end();
	ur_faults_end();
}

/* The watcher looks at the addresses of each adapter, so it comes after. */
static int make(const struct ur_dev_spec *spec)
{
	struct ur_adapter *a;
	int err = ur_adapter_create(spec, &a);

	if (err)
		return err;
	ur_device_faults_adapter(a);
	atomic_store_explicit(&adapters[spec->index], a, memory_order_release);
	err = ur_watcher_start();
	if (err) {
		atomic_store(&adapters[spec->index], NULL);
		ur_adapter_destroy(a);
	}
	return err;
}

int ur_adapter_get_at(uint32_t index, struct ur_adapter **out)
{
	const struct ur_config *config;
	int err = 0;

	ur_log_init();
	config = ur_config_get();
	if (!config || index >= config->count)
		return -ENODEV;
	pthread_once(&fork_once, install_fork_handlers);
	pthread_mutex_lock(&process_lock);
	ur_recorder_open();
	err = ur_faults_start();
	if (!err && !ur_process_adapter(index))
		err = make(&config->devices[index]);
	if (!err)
		*out = ur_process_adapter(index);
	pthread_mutex_unlock(&process_lock);
	return err;
}

/* It is kept for the next open: taking a slot and starting threads again
 * would cost more than an idle lane does, which is nothing. */
void ur_adapter_put(struct ur_adapter *a)
{
	(void)a;
}

struct ur_client *ur_process_client(void)
{
	return atomic_load_explicit(&the_client, memory_order_acquire);
}

int ur_process_client_open(struct ur_adapter *a)
{
	struct ur_client *client;
	int err = 0;

	if (atomic_load_explicit(&a->client, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&client_lock);
	client = ur_process_client();
	if (!client) {
		err = ur_client_open(&client, ur_report, NULL);
		if (!err)
			ur_recorder_share(client);
		if (!err)
			ur_client_on_capture(client, ur_capture_begin,
					     ur_capture_end);
		if (!err)
			ur_client_on_fault(client, ur_tool_order);
		if (!err)
			atomic_store_explicit(&the_client, client,
					      memory_order_release);
	}
	pthread_mutex_unlock(&client_lock);
	if (err)
		return err;
	atomic_store_explicit(&a->client, client, memory_order_release);
	ur_watcher_wake();
	return 0;
}
