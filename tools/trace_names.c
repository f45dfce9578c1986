/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "trace.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	unsigned int class;
} calls[] = {
#define CALL(name, class, minus) { #name, UR_TRACE_##class },
#include "calls_gen.h"
#undef CALL
};

const char *ur_trace_call_name(uint16_t call)
{
	const char *name = call < COUNT(calls) ? calls[call].name : "?";

	/* Of an inline function, which programs do not call. */
	return *name == '_' ? name + 1 : name;
}

unsigned int ur_trace_call_class(uint16_t call)
{
	return call < COUNT(calls) ? calls[call].class : 0;
}

const char *ur_trace_class_name(unsigned int class)
{
	switch (class) {
	case UR_TRACE_verbs:
		return "verbs";
	case UR_TRACE_cm:
		return "cm";
	case UR_TRACE_rsocket:
		return "rsocket";
	case UR_TRACE_data:
		return "data";
	default:
		return "wr";
	}
}

/* enum ibv_wr_opcode */
const char *ur_trace_wr_opcode(uint8_t opcode)
{
	static const char *const names[] = {
		"RDMA_WRITE",
		"RDMA_WRITE_WITH_IMM",
		"SEND",
		"SEND_WITH_IMM",
		"RDMA_READ",
		"ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD",
		"LOCAL_INV",
		"BIND_MW",
		"SEND_WITH_INV",
		"TSO",
		"DRIVER1",
		"?",
		"?",
		"FLUSH",
		"ATOMIC_WRITE",
	};

	return opcode < COUNT(names) ? names[opcode] : "?";
}

/* enum ibv_wc_opcode */
const char *ur_trace_wc_opcode(uint8_t opcode)
{
	static const char *const names[] = {
		"SEND",	     "RDMA_WRITE",   "RDMA_READ", "COMP_SWAP",
		"FETCH_ADD", "BIND_MW",	     "LOCAL_INV", "TSO",
		"FLUSH",     "ATOMIC_WRITE",
	};
	static const char *const received[] = {
		"RECV",	   "RECV_RDMA_WITH_IMM", "TM_ADD", "TM_DEL", "TM_SYNC",
		"TM_RECV", "TM_NO_TAG",
	};

	if (opcode < 128)
		return opcode < COUNT(names) ? names[opcode] : "?";
	return opcode - 128u < COUNT(received) ? received[opcode - 128] : "?";
}

/* enum ibv_wc_status */
const char *ur_trace_status(uint8_t status)
{
	static const char *const names[] = {
		"SUCCESS",
		"LOC_LEN_ERR",
		"LOC_QP_OP_ERR",
		"LOC_EEC_OP_ERR",
		"LOC_PROT_ERR",
		"WR_FLUSH_ERR",
		"MW_BIND_ERR",
		"BAD_RESP_ERR",
		"LOC_ACCESS_ERR",
		"REM_INV_REQ_ERR",
		"REM_ACCESS_ERR",
		"REM_OP_ERR",
		"RETRY_EXC_ERR",
		"RNR_RETRY_EXC_ERR",
		"LOC_RDD_VIOL_ERR",
		"REM_INV_RD_REQ_ERR",
		"REM_ABORT_ERR",
		"INV_EECN_ERR",
		"INV_EEC_STATE_ERR",
		"FATAL_ERR",
		"RESP_TIMEOUT_ERR",
		"GENERAL_ERR",
		"TM_ERR",
		"TM_RNDV_INCOMPLETE",
	};

	return status < COUNT(names) ? names[status] : "?";
}

const char *ur_trace_errno(uint32_t error, char text[16])
{
	static const char *const names[] = {
		[EPERM] = "EPERM",
		[ENOENT] = "ENOENT",
		[EINTR] = "EINTR",
		[EIO] = "EIO",
		[EBADF] = "EBADF",
		[EAGAIN] = "EAGAIN",
		[ENOMEM] = "ENOMEM",
		[EACCES] = "EACCES",
		[EFAULT] = "EFAULT",
		[EBUSY] = "EBUSY",
		[EEXIST] = "EEXIST",
		[ENODEV] = "ENODEV",
		[EINVAL] = "EINVAL",
		[EMFILE] = "EMFILE",
		[ENOSPC] = "ENOSPC",
		[EPIPE] = "EPIPE",
		[ERANGE] = "ERANGE",
		[ENOSYS] = "ENOSYS",
		[ENODATA] = "ENODATA",
		[EPROTO] = "EPROTO",
		[EOPNOTSUPP] = "EOPNOTSUPP",
		[EADDRINUSE] = "EADDRINUSE",
		[EADDRNOTAVAIL] = "EADDRNOTAVAIL",
		[ENETUNREACH] = "ENETUNREACH",
		[ECONNRESET] = "ECONNRESET",
		[EISCONN] = "EISCONN",
		[ENOTCONN] = "ENOTCONN",
		[ETIMEDOUT] = "ETIMEDOUT",
		[ECONNREFUSED] = "ECONNREFUSED",
		[EHOSTUNREACH] = "EHOSTUNREACH",
		[EINPROGRESS] = "EINPROGRESS",
		[ENOTTY] = "ENOTTY",
	};

	if (error < COUNT(names) && names[error])
		return names[error];
	snprintf(text, 16, "errno %u", error);
	return text;
}

/* --- requests --- */

const char *ur_trace_opcode(const struct ur_trace_wr *w)
{
	if (!w->poster)
		return ur_trace_wc_opcode(w->done.opcode);
	if (w->post.queue == UR_TRACE_SQ)
		return ur_trace_wr_opcode(w->post.opcode);
	return w->poller && !w->done.status ? ur_trace_wc_opcode(w->done.opcode)
					    : "RECV";
}

/* A receive has as many as came. */
uint32_t ur_trace_bytes(const struct ur_trace_wr *w)
{
	if (w->poster && (w->post.queue == UR_TRACE_SQ || !w->poller))
		return w->post.wr_bytes;
	return w->done.wr_bytes;
}

uint32_t ur_trace_qpn(const struct ur_trace_wr *w)
{
	return w->poller ? w->done.wr_qpn : w->post.wr_qpn;
}

uint64_t ur_trace_wr_id(const struct ur_trace_wr *w)
{
	return w->poster ? w->post.wr_id : w->done.wr_id;
}

bool ur_trace_is_recv(const struct ur_trace_wr *w)
{
	return w->poster ? w->post.queue != UR_TRACE_SQ
			 : w->done.queue != UR_TRACE_SQ;
}

/* --- arguments --- */

const char *ur_trace_pair(const struct ur_trace_item *item, uint32_t *at,
			  const char **value)
{
	uint32_t len = item->rec.len;
	const char *name, *end;

	if (len > UR_TRACE_TEXT || *at >= len)
		return NULL;
	name = item->text + *at;
	end = memchr(name, 0, len - *at);
	if (!end)
		return NULL;
	*value = end + 1;
	*at = (uint32_t)(*value - item->text);
	end = *at < len ? memchr(*value, 0, len - *at) : NULL;
	if (!end)
		return NULL;
	*at = (uint32_t)(end + 1 - item->text);
	return name;
}

static void put(struct ur_trace_item *item, const char *name, const char *fmt,
		...) __attribute__((format(printf, 3, 4)));

static void put(struct ur_trace_item *item, const char *name, const char *fmt,
		...)
{
	uint32_t at = item->rec.len;
	va_list ap;

	at += (uint32_t)snprintf(item->text + at, UR_TRACE_TEXT - at, "%s",
				 name) +
	      1;
	va_start(ap, fmt);
	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	at += (uint32_t)vsnprintf(item->text + at, UR_TRACE_TEXT - at, fmt,
				  ap) +
	      1;
	va_end(ap);
	item->rec.len = at;
}

static void put_wr(struct ur_trace_item *item, const char *opcode)
{
	put(item, "wr_id", "0x%lx", item->rec.id);
	if (opcode)
		put(item, "opcode", "%s", opcode);
	put(item, "bytes", "%u", item->rec.bytes);
	put(item, "requests", "%u", item->rec.count);
}

void ur_trace_data_text(struct ur_trace_item *item)
{
	struct ur_trace_rec *r = &item->rec;
	uint8_t opcode = (uint8_t)r->len;

	r->len = 0;
	switch (r->call) {
	case UR_TRACE_CALL_ibv_post_send:
	case UR_TRACE_CALL_ibv_wr_complete:
		put(item, "qp", "0x%06x", r->qpn);
		put_wr(item, ur_trace_wr_opcode(opcode));
		break;
	case UR_TRACE_CALL_ibv_post_recv:
		put(item, "qp", "0x%06x", r->qpn);
		put_wr(item, NULL);
		break;
	case UR_TRACE_CALL_ibv_post_srq_recv:
		put_wr(item, NULL);
		break;
	case UR_TRACE_CALL_ibv_poll_cq:
		put(item, "num_entries", "%u", r->count);
		break;
	case UR_TRACE_CALL_ibv_req_notify_cq:
		put(item, "cq", "0x%lx", r->id);
		put(item, "solicited_only", "%u", r->count);
		break;
	default:
		break;
	}
	if ((r->call == UR_TRACE_CALL_ibv_poll_cq && r->result > 0) ||
	    r->call == UR_TRACE_CALL_ibv_start_poll ||
	    r->call == UR_TRACE_CALL_ibv_next_poll) {
		put(item, ">qp", "0x%06x", r->qpn);
		put(item, ">wr_id", "0x%lx", r->id);
	}
}

void ur_trace_quote(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

/* --- filters --- */

static bool take(struct ur_trace_filter *f, const char *word)
{
	static const char *const classes[] = { "verbs", "cm", "rsocket", "data",
					       "wr" };

	if (!strcmp(word, "errors")) {
		f->errors = true;
		return true;
	}
	for (unsigned int i = 0; i < COUNT(classes); i++)
		if (!strcmp(word, classes[i])) {
			f->classes |= 1u << i;
			return true;
		}
	for (uint32_t i = 0; i < UR_TRACE_CALLS; i++)
		if (!strcmp(word, ur_trace_call_name((uint16_t)i))) {
			f->call[i] = true;
			return true;
		}
	return false;
}

bool ur_trace_filter_parse(struct ur_trace_filter *f, const char *text)
{
	char word[64];

	for (const char *end; *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, ',');
		if (end - text >= (long)sizeof(word))
			return false;
		memcpy(word, text, (size_t)(end - text));
		word[end - text] = 0;
		if (!take(f, word)) {
			fprintf(stderr,
				"urnic: trace: \"%s\" is no call, nor verbs, cm, "
				"rsocket, data, wr or errors\n",
				word);
			return false;
		}
	}
	return true;
}

/* Without a class or call: all. */
static bool is_open(const struct ur_trace_filter *f)
{
	for (uint32_t i = 0; i < UR_TRACE_CALLS; i++)
		if (f->call[i])
			return false;
	return !f->classes;
}

unsigned int ur_trace_filter_classes(const struct ur_trace_filter *f)
{
	unsigned int classes = f->classes;

	if (is_open(f))
		return UR_TRACE_ALL;
	for (uint32_t i = 0; i < UR_TRACE_CALLS; i++)
		if (f->call[i])
			classes |= ur_trace_call_class((uint16_t)i);
	return classes;
}

bool ur_trace_filter_class(const struct ur_trace_filter *f, unsigned int class)
{
	return (f->classes & class) || is_open(f);
}

static bool is_of_qp(const struct ur_trace_item *item, uint32_t qpn)
{
	const char *name, *value;
	uint32_t at = 0;
	char want[16];

	snprintf(want, sizeof(want), "0x%06x", qpn);
	while ((name = ur_trace_pair(item, &at, &value)))
		if (!strcmp(value, want) &&
		    (strstr(name, "qp_num") || strstr(name, "qp")))
			return true;
	return false;
}

bool ur_trace_filter_call(const struct ur_trace_filter *f,
			  const struct ur_trace_item *item)
{
	const struct ur_trace_rec *r = &item->rec;

	if (r->call >= UR_TRACE_CALLS || (f->errors && !r->error))
		return false;
	if (f->has_qp && !is_of_qp(item, f->qpn))
		return false;
	return f->call[r->call] ||
	       ur_trace_filter_class(f, ur_trace_call_class(r->call));
}

bool ur_trace_filter_wr(const struct ur_trace_filter *f,
			const struct ur_trace_wr *w)
{
	if (f->errors && !(w->poller && w->done.status))
		return false;
	if (f->has_qp && ur_trace_qpn(w) != f->qpn)
		return false;
	return ur_trace_filter_class(f, UR_TRACE_wr);
}
