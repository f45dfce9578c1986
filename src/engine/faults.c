/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/faults.h"

#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "engine/device_faults.h"
#include "engine/faulty_link.h"
#include "engine/faulty_stream.h"
#include "engine/fork_faults.h"
#include "engine/internal.h"
#include "engine/late_cqs.h"
#include "engine/report.h"
#include "fault/state.h"
#include "shm/shm.h"

/* A scenario that a tool has sent, and the socket for the answer. */
struct order {
	struct ur_fault_scenario *scenario;
	int fd;
};

/* Guards the fields below; inner to all other locks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
/* Replaced and freed by the thread alone. */
static struct ur_fault_scenario *scenario;
static struct order ordered = { .fd = -1 };
static uint32_t next_step;
static uint64_t start_ns; /* of the scenario */
static bool running;	  /* the thread */
/* When held packets are due; written under the lock. */
static _Atomic uint64_t due_ns = UR_NEVER;
static bool is_wrong;	     /* URNIC_FAULT; constant after loading */
static _Atomic bool was_any; /* there was a scenario */
static _Atomic bool needs_packets;

static bool has_packets(const struct ur_fault_set *s)
{
	for (uint32_t i = 0; s && i < s->spec.n; i++)
		if (ur_fault_is_of_packets(s->spec.rule[i].kind))
			return true;
	return false;
}

static void install(struct ur_lane *l)
{
	int err;

	if (!l->roce && !l->iw) {
		ur_warn_some("fault: %s lane %u: faults of packets act on "
			     "those of RoCE and iWARP",
			     l->ops->name, l->id);
		return;
	}
	ur_lane_lock(l);
	err = l->iw ? ur_faulty_stream_set(l, true)
		    : ur_faulty_link_install(l->link, l->adapter->dev.name,
					     l->id, l);
	ur_lane_unlock(l);
	if (err)
		ur_err("fault: %s", strerror(-err));
}

static void pause_shm(struct ur_lane *l)
{
	if (!l->roce)
		return;
	ur_lane_lock(l);
	ur_shm_pause(l->roce, atomic_load(&needs_packets));
	ur_lane_send(l, ur_clock_ns());
	ur_lane_unlock(l);
	ur_evq_flush_wakes();
}

void ur_faults_lane(struct ur_lane *l)
{
	if (has_packets(atomic_load(&ur_fault_set)))
		install(l);
	if (atomic_load(&needs_packets))
		pause_shm(l);
}

static void for_each_lane(void (*fn)(struct ur_lane *l))
{
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		const struct ur_adapter *a = ur_process_adapter(k);
		uint32_t n = a ? atomic_load(&a->lane_count) : 0;

		for (uint32_t i = 0; i < n; i++)
			fn(atomic_load(&a->lanes[i]));
	}
}

static void stop_streams(struct ur_lane *l)
{
	if (!l->iw)
		return;
	ur_lane_lock(l);
	(void)ur_faulty_stream_set(l, false);
	ur_lane_step(l, ur_clock_ns());
	ur_lane_unlock(l);
	ur_evq_flush_wakes();
}

/* Lanes made meanwhile see the new set (ur_faults_lane()). */
static void begin(const struct ur_fault_spec *spec)
{
	struct ur_fault_set *s = NULL;

	if (spec->n) {
		s = ur_fault_set_new(spec);
		if (!s) {
			ur_err("fault: %s", strerror(ENOMEM));
			return;
		}
		if (!spec->has_seed)
			ur_rng_secret(&s->spec.seed, 4);
	}
	ur_info("fault: in force: %s%s", spec->text[0] ? spec->text : "none",
		s && !spec->has_seed ? " with a seed by chance" : "");
	atomic_store(&ur_fault_set, s);
	for_each_lane(has_packets(s) ? install : stop_streams);
	ur_device_faults_begin(s);
	ur_late_cqs_begin();
}

static void step_if_due(struct ur_lane *l)
{
	uint64_t now = ur_clock_ns();

	if (!l->roce)
		return;
	ur_lane_lock(l);
	if (ur_faulty_link_due(l->link) <= now)
		ur_lane_step(l, now);
	/* One time is kept for all lanes: this one's may have been later. */
	ur_faults_wake_at(ur_faulty_link_due(l->link));
	ur_lane_unlock(l);
	ur_evq_flush_wakes();
}

/* Packets and completions that are due. */
static void show_due(void)
{
	for_each_lane(step_if_due);
	ur_late_cqs_show(ur_clock_ns());
}

static void answer(int fd, const char *text)
{
	if (fd < 0)
		return;
	(void)ur_sys_send(fd, text, strlen(text) + 1,
			  MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* Under the lock, which it leaves meanwhile.  `scenario` is valid at any time, as
 * the child of a fork() finds it. */
static void obey(void)
{
	struct ur_fault_scenario *old = scenario, *new = ordered.scenario;
	static const struct ur_fault_spec none;
	bool at_once = new->step[0].at_ns == 0;
	int fd = ordered.fd;

	ordered = (struct order){ .fd = -1 };
	scenario = new;
	start_ns = ur_clock_ns();
	next_step = at_once;
	pthread_mutex_unlock(&lock);
	free(old);
	atomic_store(&was_any, true);
	atomic_store(&needs_packets, ur_fault_has_packets(new));
	begin(at_once ? &new->step[0].spec : &none);
	for_each_lane(pause_shm);
	answer(fd, "");
	pthread_mutex_lock(&lock);
}

/* Under the lock. */
static uint64_t step_ns(void)
{
	return scenario && next_step < scenario->n
		       ? start_ns + scenario->step[next_step].at_ns
		       : UR_NEVER;
}

/* Under the lock. */
static void sleep_until(uint64_t ns)
{
	const struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
				    .tv_nsec = (long)(ns % 1000000000u) };

	if (ns == UR_NEVER)
		pthread_cond_wait(&changed, &lock);
	else
		(void)pthread_cond_timedwait(&changed, &lock, &t);
}

static void *faults_main(void *arg)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		uint64_t now = ur_clock_ns(), due = atomic_load(&due_ns),
			 step = step_ns();

		if (ordered.scenario) {
			obey();
			continue;
		}
		if (step > now && due > now) {
			sleep_until(step < due ? step : due);
			continue;
		}
		if (due <= now)
			atomic_store(&due_ns, UR_NEVER);
		pthread_mutex_unlock(&lock);
		if (step <= now)
			begin(&scenario->step[next_step].spec);
		if (due <= now)
			show_due();
		pthread_mutex_lock(&lock);
		/* Only now: the child of a fork() begins it again. */
		next_step += step <= now;
	}
	return NULL;
}

void ur_faults_wake_at(uint64_t at_ns)
{
	if (at_ns >= atomic_load(&due_ns))
		return;
	pthread_mutex_lock(&lock);
	if (at_ns < due_ns) {
		atomic_store(&due_ns, at_ns);
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
}

bool ur_faults_need_packets(void)
{
	return atomic_load(&needs_packets);
}

/* Under the lock. */
static int start_thread(void)
{
	pthread_t thread;
	int err = running ? 0
			  : ur_thread_start(&thread, "urnic-fault", faults_main,
					    NULL);

	running = !err;
	return err;
}

int ur_faults_start(void)
{
	int err;

	if (is_wrong)
		return -EINVAL;
	if (!atomic_load(&was_any))
		return 0;
	pthread_mutex_lock(&lock);
	err = start_thread();
	pthread_mutex_unlock(&lock);
	return err;
}

/* NULL: why says what is wrong. */
static struct ur_fault_scenario *read_order(int fd, char why[UR_FAULT_WHY_LEN])
{
	struct ur_fault_scenario *s = calloc(1, sizeof(*s));
	char *text = malloc(UR_FAULT_ORDER);
	ssize_t n =
		text ? ur_sys_recv(fd, text, UR_FAULT_ORDER, MSG_DONTWAIT) : 0;
	bool ok = false;

	if (!s || !text)
		snprintf(why, UR_FAULT_WHY_LEN, "%s", strerror(ENOMEM));
	else if (n <= 0 || text[n - 1])
		snprintf(why, UR_FAULT_WHY_LEN, "the order is incomplete");
	else
		ok = ur_fault_parse_lines(s, text, why);
	free(text);
	if (ok)
		return s;
	free(s);
	return NULL;
}

void ur_faults_order(int fd)
{
	char why[UR_FAULT_WHY_LEN];
	struct ur_fault_scenario *s = read_order(fd, why);
	struct order o = { s, fd };
	int err;

	if (!s) {
		answer(fd, why);
		return;
	}
	pthread_mutex_lock(&lock);
	err = start_thread();
	if (!err) {
		o = ordered;
		ordered = (struct order){ s, fd };
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	answer(o.fd, err ? strerror(err < 0 ? -err : err)
			 : "other faults were ordered meanwhile");
	free(o.scenario);
}

static void init_cond(void)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &a);
	pthread_condattr_destroy(&a);
}

void ur_faults_child(void)
{
	pthread_mutex_init(&lock, NULL);
	init_cond();
	running = false;
	atomic_store(&ur_fault_forking, false);
	atomic_store(&due_ns, UR_NEVER);
	if (ordered.fd >= 0)
		close(ordered.fd);
	ordered = (struct order){ .fd = -1 };
}

/* Verbs may fail from the first on, before there is an adapter. */
__attribute__((constructor)) static void read_environment(void)
{
	const char *arg = secure_getenv("URNIC_FAULT");
	char why[UR_FAULT_WHY_LEN];

	init_cond();
	ur_fault_fork = ur_fork_fault;
	if (!arg || !*arg)
		return;
	ur_log_init();
	scenario = calloc(1, sizeof(*scenario));
	is_wrong = !scenario || !ur_fault_parse_arg(scenario, arg, why);
	if (is_wrong) {
		ur_err("URNIC_FAULT: %s", scenario ? why : strerror(ENOMEM));
		return;
	}
	was_any = true;
	needs_packets = ur_fault_has_packets(scenario);
	start_ns = ur_clock_ns();
	if (scenario->step[0].at_ns == 0)
		begin(&scenario->step[next_step++].spec);
}

static void add_rule(struct json_object *list, const struct ur_fault_set *s,
		     uint32_t i)
{
	const struct ur_fault_rule *r = &s->spec.rule[i];
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "fault",
			       json_object_new_string_len(s->spec.text + r->at,
							  r->len));
	ur_report_int(o, "seen", atomic_load(&s->count[i].seen));
	ur_report_int(o, "done", atomic_load(&s->count[i].done));
	json_object_array_add(list, o);
}

void ur_faults_report(struct json_object *root)
{
	const struct ur_fault_set *s = atomic_load(&ur_fault_set);
	struct json_object *o, *list, *done;

	if (!atomic_load(&was_any))
		return;
	o = json_object_new_object();
	list = json_object_new_array();
	done = json_object_new_object();
	ur_report_string(o, "spec", s ? s->spec.text : "none");
	if (s)
		ur_report_int(o, "seed", s->spec.seed);
	for (uint32_t i = 0; s && i < s->spec.n; i++)
		add_rule(list, s, i);
	json_object_object_add(o, "rules", list);
	for (int k = 0; k < UR_FAULT_KINDS; k++)
		ur_report_int(done, ur_fault_name(k),
			      atomic_load(&ur_fault_done[k]));
	json_object_object_add(o, "done", done);
	json_object_object_add(root, "faults", o);
}

void ur_faults_end(void)
{
	if (!atomic_load(&was_any))
		return;
	for (int k = 0; k < UR_FAULT_KINDS; k++)
		if (atomic_load(&ur_fault_done[k]))
			ur_info("fault: %s: %llu injected", ur_fault_name(k),
				(unsigned long long)atomic_load(
					&ur_fault_done[k]));
}
