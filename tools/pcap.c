/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic pcap: packets of running processes, as pcapng or lines of JSON.
 *
 * Each process writes to a ring of its own (core/capture.h), and this reads the
 * oldest record of all.  With --last the encoded packets wait in memory instead of
 * being written, and the first error completion ends the capture.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "base/addr.h"
#include "base/clock.h"
#include "pcap_frame.h"
#include "pcap_json.h"
#include "pcap_source.h"
#include "pcapng.h"
#include "urnic.h"

#define NS_PER_S   1000000000ull
/* A record that is this old is behind those of other processes. */
#define SETTLE_NS  2000000u
#define REFRESH_NS 20000000u
/* The packet that made a completion fail is recorded after it. */
#define AFTER_NS   20000000u
#define IDLE_MS	   1
#define AT_ONCE	   4096u /* records between two looks at the clock */
#define PIDS_MAX   256u
#define KEEP_MAX   (512u << 20) /* bytes that --last keeps */

static const char usage[] =
	"usage: urnic pcap [PID...] -w FILE|--json [options]\n"
	"Writes the packets that your running processes send and receive as\n"
	"pcapng, those through shared memory too, until interrupted or until the\n"
	"processes have ended.  Without PID: all of yours, also later ones.\n"
	"  -w FILE           the file; -: standard output (| tshark -r -)\n"
	"  --json            a line of JSON for each packet, to standard output;\n"
	"                    with -w: only the last line, of the whole\n"
	"  --device NAME     only of this device\n"
	"  --qp QPN          only of this queue pair and its peer (0x...)\n"
	"  --peer ADDR       only to or from this address\n"
	"  --seconds N       end after so many seconds\n"
	"  --count N         end after so many packets\n"
	"  --last SECONDS    write only what came in so many seconds before the\n"
	"                    first completion with an error, and end then\n"
	"  --help\n";

/* A packet that --last keeps. */
struct kept {
	struct kept *next;
	uint64_t ns;
	size_t len;
	uint8_t block[];
};

struct pcap {
	const char *path; /* NULL: lines of JSON */
	bool json;
	FILE *out;
	const char *device;
	uint32_t qpn; /* UINT32_MAX: all */
	uint8_t peer[16];
	bool has_peer;
	uint64_t seconds;
	uint64_t count;	  /* 0: without end */
	uint64_t last_ns; /* 0: no --last */
	uint32_t pids[PIDS_MAX];
	struct ur_sources sources;
	struct ur_source *now; /* whose record is being made frames of */
	struct ur_frame_out frames;
	struct ur_roce_frames *roce;
	struct ur_shm_frames *shm;
	struct ur_tcp_frames *tcp;
	uint32_t interfaces;
	uint64_t packets;
	uint64_t unwritten; /* there was no memory, or no room */
	uint64_t begin_ns;  /* CLOCK_MONOTONIC */
	uint64_t real_ns;   /* CLOCK_REALTIME at CLOCK_MONOTONIC 0 */
	uint64_t failed_ns; /* with --last: the completion came; 0: not yet */
	int write_error;
	struct kept *first;
	struct kept **end;
	uint64_t kept_bytes;
	uint8_t block[UR_FRAME_ROOM + UR_PCAPNG_ROOM];
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = 1;
}

/* --- writing --- */

static void write_out(struct pcap *p, const void *block, size_t len)
{
	if (!p->write_error && fwrite(block, len, 1, p->out) != 1)
		p->write_error = errno ? errno : EIO;
}

static void flush(struct pcap *p)
{
	if (!p->write_error && fflush(p->out))
		p->write_error = errno;
}

static void drop_first(struct pcap *p)
{
	struct kept *k = p->first;

	p->first = k->next;
	if (!p->first)
		p->end = &p->first;
	p->kept_bytes -= k->len;
	free(k);
}

static void keep(struct pcap *p, uint64_t ns, size_t len)
{
	struct kept *k = malloc(sizeof(*k) + len);

	if (!k)
		return;
	k->next = NULL;
	k->ns = ns;
	k->len = len;
	memcpy(k->block, p->block, len);
	*p->end = k;
	p->end = &k->next;
	p->kept_bytes += len;
	while (p->first != k &&
	       (p->first->ns + p->last_ns < ns || p->kept_bytes > KEEP_MAX))
		drop_first(p);
}

static uint32_t interface_of(struct pcap *p, struct ur_source *x)
{
	uint32_t *at = &x->interface[x->rec.device];
	char name[UR_CAPTURE_DEVICE], text[64];

	if (*at != UINT32_MAX)
		return *at;
	memcpy(name, x->head->device[x->rec.device], sizeof(name));
	name[sizeof(name) - 1] = 0;
	snprintf(text, sizeof(text), "process %u (%s)", x->pid, x->comm);
	*at = p->interfaces++;
	if (p->path)
		write_out(p, p->block,
			  ur_pcapng_interface(p->block, name, text));
	return *at;
}

/* --- filters --- */

static bool is_of_device(const struct pcap *p, const struct ur_source *x)
{
	return !p->device || !strncmp(p->device, x->head->device[x->rec.device],
				      UR_CAPTURE_DEVICE);
}

static bool is_of_peer(const struct pcap *p, const struct ur_capture_rec *r)
{
	return !p->has_peer || !memcmp(r->src, p->peer, 16) ||
	       !memcmp(r->dst, p->peer, 16);
}

/* A packet on its way to the peer names the peer's queue pair only. */
static bool is_of_qp(const struct pcap *p, const struct ur_frame *f)
{
	if (p->qpn == UINT32_MAX)
		return true;
	if (f->rec->kind == UR_CAP_TCP || f->rec->kind == UR_CAP_SHM)
		return f->rec->qpn == p->qpn || f->dqpn == p->qpn;
	if (f->dqpn == UINT32_MAX)
		return false;
	return f->dqpn == p->qpn ||
	       f->dqpn == ur_source_peer_qpn(p->now, p->qpn);
}

static size_t as_pcapng(struct pcap *p, const struct ur_frame *f)
{
	const struct ur_pcapng_packet k = { .interface = f->interface,
					    .ns = f->rec->ns + p->real_ns,
					    .sent = f->sent,
					    .data = f->data,
					    .len = f->len,
					    .comment = f->comment };

	return ur_pcapng_packet(p->block, &k);
}

static size_t as_json(struct pcap *p, const struct ur_frame *f)
{
	char name[UR_CAPTURE_DEVICE];
	const struct ur_pcap_json j = { .frame = f,
					.t_ns = (int64_t)(f->rec->ns -
							  p->begin_ns),
					.pid = p->now->pid,
					.comm = p->now->comm,
					.device = name };

	memcpy(name, p->now->head->device[f->rec->device], sizeof(name));
	name[sizeof(name) - 1] = 0;
	return ur_pcap_json_packet((char *)p->block, sizeof(p->block), &j);
}

static void on_frame(void *arg, const struct ur_frame *f)
{
	struct pcap *p = arg;
	size_t len;

	if (!is_of_qp(p, f) || (p->count && p->packets >= p->count))
		return;
	len = p->path ? as_pcapng(p, f) : as_json(p, f);
	if (!len) {
		p->unwritten++;
		return;
	}
	p->packets++;
	if (p->last_ns)
		keep(p, f->rec->ns, len);
	else
		write_out(p, p->block, len);
}

/* --- records --- */

static void put_frame(struct pcap *p, const struct ur_capture_rec *rec)
{
	const struct ur_frame f = { .rec = rec,
				    .interface = p->frames.interface,
				    .data = p->now->payload,
				    .len = rec->len,
				    .dqpn = UINT32_MAX,
				    .sent = rec->flags & UR_CAP_OUT };

	if (rec->len <= UR_FRAME_ROOM)
		on_frame(p, &f);
}

static void put_record(struct pcap *p, struct ur_source *x)
{
	const struct ur_capture_rec *rec = &x->rec;

	if (rec->device >= UR_MAX_DEVICES)
		return;
	if (rec->kind == UR_CAP_FAILED) {
		if (p->last_ns && !p->failed_ns && is_of_device(p, x))
			p->failed_ns = rec->ns;
		return;
	}
	if (!is_of_device(p, x) ||
	    (rec->kind != UR_CAP_FRAME && !is_of_peer(p, rec)))
		return;
	p->now = x;
	p->frames.interface = interface_of(p, x);
	p->frames.source = x->id;
	x->records[rec->device]++;
	if (rec->kind == UR_CAP_ROCE)
		ur_roce_frames_put(p->roce, &p->frames, rec, x->payload);
	else if (rec->kind == UR_CAP_SHM)
		ur_shm_frames_put(p->shm, &p->frames, rec, x->payload);
	else if (rec->kind == UR_CAP_TCP)
		ur_tcp_frames_put(p->tcp, &p->frames, rec, x->payload);
	else if (rec->kind == UR_CAP_FRAME)
		put_frame(p, rec);
}

static bool is_done(const struct pcap *p)
{
	return p->write_error || (p->count && p->packets >= p->count);
}

/* Returns the number of records. */
static uint32_t drain(struct pcap *p, uint64_t until_ns)
{
	struct ur_source *x;
	uint32_t n = 0;

	while (n < AT_ONCE && !is_done(p) &&
	       (x = ur_sources_oldest(&p->sources, until_ns))) {
		put_record(p, x);
		ur_source_pop(x);
		n++;
	}
	return n;
}

/* --- the whole --- */

static int wait_for_more(const struct pcap *p)
{
	struct pollfd f[2] = { { .fd = p->sources.conn, .events = POLLIN },
			       { .fd = fileno(p->out) } };

	if (poll(f, 2, IDLE_MS) <= 0)
		return 0;
	/* The other end of a pipe has gone. */
	if (f[1].revents & POLLERR)
		return -EPIPE;
	return f[0].revents ? -ECONNRESET : 0;
}

static int run(struct pcap *p)
{
	uint64_t now = ur_clock_ns(), refreshed = 0;
	uint64_t end = p->seconds ? now + p->seconds * NS_PER_S : UINT64_MAX;
	int err = 0;

	while (!err && !interrupted && !is_done(p) && now < end) {
		if (now - refreshed > REFRESH_NS) {
			refreshed = now;
			err = ur_sources_refresh(&p->sources);
			if (!err && p->sources.npids &&
			    !ur_sources_any(&p->sources))
				break;
		}
		if (!err && !drain(p, now - SETTLE_NS)) {
			if (!p->last_ns)
				flush(p);
			err = wait_for_more(p);
		}
		now = ur_clock_ns();
		if (p->failed_ns && now > p->failed_ns + AFTER_NS)
			break;
	}
	return err;
}

/* Of each interface; the sum of what is lost. */
static uint64_t write_statistics(struct pcap *p)
{
	struct timespec t;
	uint64_t now, lost = 0;

	clock_gettime(CLOCK_REALTIME, &t);
	now = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
	for (uint32_t i = 0; i < p->sources.n; i++) {
		const struct ur_source *x = p->sources.source[i];

		for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
			uint64_t n = ur_source_lost(x, k);

			lost += n;
			if (x->interface[k] == UINT32_MAX || !p->path)
				continue;
			write_out(p, p->block,
				  ur_pcapng_statistics(p->block,
						       x->interface[k], now,
						       x->records[k] + n, n));
		}
	}
	return lost;
}

/* To the standard output, unless pcapng goes there. */
static void summarize_json(struct pcap *p, uint64_t lost)
{
	FILE *f = p->path && p->out == stdout ? stderr : stdout;
	size_t len = ur_pcap_json_end((char *)p->block, sizeof(p->block),
				      p->packets, p->sources.n, lost);

	if ((fwrite(p->block, len, 1, f) != 1 || fflush(f)) && !p->write_error)
		p->write_error = errno ? errno : EIO;
}

static void summarize(struct pcap *p)
{
	uint64_t lost = write_statistics(p) + p->unwritten;

	flush(p);
	if (p->json) {
		summarize_json(p, lost);
		return;
	}
	fprintf(stderr, "%llu packets of %u processes",
		(unsigned long long)p->packets, p->sources.n);
	if (lost)
		fprintf(stderr,
			"; %llu records (packets or bursts) are missing, since "
			"the processes wrote them faster than they were read",
			(unsigned long long)lost);
	fputc('\n', stderr);
}

static void write_kept(struct pcap *p)
{
	uint64_t n = 0;

	while (p->first) {
		write_out(p, p->first->block, p->first->len);
		drop_first(p);
		n++;
	}
	p->packets = n;
	if (!p->failed_ns)
		ur_tool_error("no completion has failed; the last packets are "
			      "written");
}

static int capture(struct pcap *p)
{
	int err = run(p);

	/* What came until the interrupt. */
	for (uint64_t until = ur_clock_ns(); !is_done(p) && drain(p, until);)
		;
	if (p->last_ns)
		write_kept(p);
	summarize(p);
	if (err == -ECONNRESET)
		ur_tool_error("urnicd has ended, and the capture with it");
	else if (err == -ETIMEDOUT || err == -EPROTO)
		ur_tool_error("urnicd does not answer: %s", strerror(-err));
	if (p->write_error)
		ur_tool_error("%s: %s", p->path ? p->path : "standard output",
			      strerror(p->write_error));
	return (err && err != -EPIPE) || p->write_error ? 1 : 0;
}

/* --- options --- */

static bool option(struct pcap *p, int c, const char *text)
{
	uint64_t n = 0;

	switch (c) {
	case 'w':
		p->path = text;
		return true;
	case 'j':
		p->json = true;
		return true;
	case 'd':
		p->device = text;
		return true;
	case 'a':
		p->has_peer = ur_addr_parse(p->peer, text);
		return p->has_peer;
	case 'q':
		if (!ur_tool_number(text, 0, 0xffffff, &n))
			return false;
		p->qpn = (uint32_t)n;
		return true;
	case 's':
		return ur_tool_number(text, 1, UINT32_MAX, &p->seconds);
	case 'c':
		return ur_tool_number(text, 1, UINT64_MAX, &p->count);
	case 'l':
		if (!ur_tool_number(text, 1, 86400, &n))
			return false;
		p->last_ns = n * NS_PER_S;
		return true;
	default:
		return false;
	}
}

static bool pids(struct pcap *p, int n, char **text)
{
	for (int i = 0; i < n; i++) {
		uint64_t pid;

		if (i == (int)PIDS_MAX ||
		    !ur_tool_number(text[i], 0, INT32_MAX, &pid)) {
			ur_tool_error("\"%s\" is no number of a process",
				      text[i]);
			return false;
		}
		p->pids[i] = (uint32_t)pid;
	}
	p->sources.pids = p->pids;
	p->sources.npids = (uint32_t)n;
	return true;
}

static bool parse(struct pcap *p, int argc, char **argv)
{
	static const struct option options[] = {
		{ "write", required_argument, NULL, 'w' },
		{ "device", required_argument, NULL, 'd' },
		{ "qp", required_argument, NULL, 'q' },
		{ "peer", required_argument, NULL, 'a' },
		{ "seconds", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'c' },
		{ "last", required_argument, NULL, 'l' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = ur_tool_option(argc, argv, "w:h", options, usage)) != -1) {
		if (!option(p, c, optarg)) {
			ur_tool_error("pcap: \"%s\" is not valid there",
				      optarg);
			return false;
		}
	}
	if (!pids(p, argc - optind, argv + optind))
		return false;
	if (p->path ? strcmp(p->path, "-") != 0 || !isatty(STDOUT_FILENO)
		    : p->json)
		return true;
	ur_tool_error("pcap: -w FILE, -w - and a pipe (| tshark -r -), or "
		      "--json");
	return false;
}

static int open_all(struct pcap *p)
{
	struct timespec t;

	p->sources.conn = ur_ask_open();
	if (p->sources.conn == -ECONNREFUSED)
		ur_tool_error("no urnicd runs in this network namespace, so no "
			      "process can be captured");
	else if (p->sources.conn < 0 && p->sources.conn != -EACCES)
		ur_tool_error("urnicd does not answer: %s",
			      strerror(-p->sources.conn));
	if (p->sources.conn < 0)
		return p->sources.conn;
	p->roce = ur_roce_frames_create();
	p->shm = ur_shm_frames_create();
	p->tcp = ur_tcp_frames_create();
	clock_gettime(CLOCK_REALTIME, &t);
	p->begin_ns = ur_clock_ns();
	p->real_ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec -
		     p->begin_ns;
	return p->roce && p->shm && p->tcp ? 0 : -ENOMEM;
}

static int open_file(struct pcap *p)
{
	p->out = !p->path || strcmp(p->path, "-") == 0 ? stdout
						       : fopen(p->path, "we");
	if (!p->out) {
		ur_tool_error("%s: %s", p->path, strerror(errno));
		return -errno;
	}
	write_out(p, p->block,
		  p->path ? ur_pcapng_section(p->block, "urnic " UR_VERSION)
			  : ur_pcap_json_start((char *)p->block,
					       sizeof(p->block), UR_VERSION,
					       p->real_ns + p->begin_ns));
	return 0;
}

/* Unknown numbers would wait for ever. */
static int check_pids(struct pcap *p)
{
	int err = ur_sources_refresh(&p->sources), status = err ? 1 : 0;

	for (uint32_t i = 0; !err && i < p->sources.npids; i++) {
		bool found = false;

		for (uint32_t k = 0; k < p->sources.n; k++)
			found |= p->sources.source[k]->pid == p->pids[i];
		if (!found)
			ur_tool_error("process %u does not use urnic in this "
				      "network namespace",
				      p->pids[i]);
		status |= !found;
	}
	return status;
}

int ur_cmd_pcap(int argc, char **argv)
{
	struct pcap *p = calloc(1, sizeof(*p));
	struct sigaction sa = { .sa_handler = on_signal };
	int status = 2;

	if (!p)
		return 1;
	p->qpn = UINT32_MAX;
	p->end = &p->first;
	p->frames.fn = on_frame;
	p->frames.arg = p;
	p->sources.conn = -1;
	if (parse(p, argc, argv)) {
		sigaction(SIGINT, &sa, NULL);
		sigaction(SIGTERM, &sa, NULL);
		signal(SIGPIPE, SIG_IGN);
		status = open_all(p) || check_pids(p) || open_file(p)
				 ? 1
				 : capture(p);
		if (p->out && fclose(p->out) && !status)
			status = 1;
	}
	ur_sources_close(&p->sources);
	ur_roce_frames_destroy(p->roce);
	ur_shm_frames_destroy(p->shm);
	ur_tcp_frames_destroy(p->tcp);
	free(p);
	return status;
}
