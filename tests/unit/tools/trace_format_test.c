/* SPDX-License-Identifier: BSD-2-Clause */
/* The formats of urnic trace, of records that are always the same. */
#include "trace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "urnic.h"

void ur_tool_error(const char *fmt, ...)
{
	fail_msg("%s", fmt);
}

static struct ur_trace_proc proc = { .pid = 10, .comm = "a\"b" };
static struct ur_trace_source source = { .proc = &proc, .tid = 11 };
static const struct ur_trace_sources sources = { .drained = &source };

/* A call with two arguments and a result, which has failed. */
static struct ur_trace_item failed_call(void)
{
	static const char text[] = "device\0urnic0\0n\0"
				   "3\0>out\0x\"\n";
	struct ur_trace_item item = {
		.rec = { .kind = UR_TRACE_CALL,
			 .call = UR_TRACE_CALL_ibv_open_device,
			 .ns = 3500,
			 .dur_ns = 1500,
			 .error = EINVAL,
			 .len = sizeof(text) }
	};

	memcpy(item.text, text, sizeof(text));
	return item;
}

static struct ur_trace_item posted(void)
{
	struct ur_trace_item item = {
		.rec = { .kind = UR_TRACE_DATA,
			 .call = UR_TRACE_CALL_ibv_post_send,
			 .ns = 5000,
			 .dur_ns = 1000,
			 .count = 2,
			 .id = 7,
			 .qpn = 0x12,
			 .bytes = 64,
			 .len = 2 /* SEND */ }
	};

	ur_trace_data_text(&item);
	return item;
}

static const struct ur_trace_item polls = {
	.rec = { .kind = UR_TRACE_EMPTY, .ns = 8000, .wr_id = 6000, .count = 9 }
};

static const struct ur_trace_wr sent = {
	.poster = &source,
	.poller = &source,
	.post = { .ns = 4000,
		  .wr_qpn = 0x12,
		  .wr_id = 7,
		  .wr_bytes = 64,
		  .opcode = 2 },
	.done = { .ns = 9000,
		  .wr_qpn = 0x12,
		  .wr_id = 7,
		  .status = 12,
		  .vendor = 0x81 },
	.flow = 0xabc,
};

static const struct ur_trace_wr waiting = {
	.poster = &source,
	.post = { .ns = 4000,
		  .wr_qpn = 0x12,
		  .wr_id = 8,
		  .wr_bytes = 32,
		  .queue = UR_TRACE_RQ },
	.ended_late = true,
	.end_ns = 10000,
};

/* All of them in a format: the text, of which the caller frees the memory. */
static char *written(const struct ur_trace_format *format)
{
	char *text = NULL;
	size_t len;
	struct ur_trace_out o = { .format = format,
				  .file = open_memstream(&text, &len),
				  .begin_ns = 1000,
				  .real_ns = 77,
				  .several = true,
				  .sources = &sources };
	const struct ur_trace_item call = failed_call(), data = posted();

	assert_non_null(o.file);
	source.lost = 4;
	format->begin(&o);
	format->call(&o, &source, &call, true);
	format->call(&o, &source, &call, false);
	format->call(&o, &source, &data, true);
	format->call(&o, &source, &polls, true);
	format->wr(&o, &sent);
	format->wr(&o, &waiting);
	format->end(&o);
	assert_int_equal(fclose(o.file), 0);
	return text;
}

/* line: of the text, from 0, with its end. */
static void assert_line(const char *text, int line, const char *want)
{
	while (line--) {
		text = strchr(text, '\n');
		assert_non_null(text);
		text++;
	}
	if (strncmp(text, want, strlen(want)) != 0 ||
	    text[strlen(want)] != '\n')
		fail_msg("%s\nis not\n%s", text, want);
}

static void text(void **state)
{
	char *is = written(&ur_trace_text);

	assert_string_equal(
		is,
		"0.000001 [pid 10 tid 11] ibv_open_device(device=urnic0, n=3)"
		" = NULL EINVAL (Invalid argument) {out=x\"\n} <0.000002>\n"
		"0.000003 [pid 10 tid 11] ibv_open_device(device=urnic0, n=3"
		" <unfinished ...>\n"
		"0.000003 [pid 10 tid 11] ibv_post_send(qp=0x000012, wr_id=0x7,"
		" opcode=SEND, bytes=64, requests=2) = 0 <0.000001>\n"
		"0.000005 [pid 10 tid 11] ibv_poll_cq() = 0, 9 times in"
		" 0.000002 s\n"
		"0.000008 [pid 10 tid 11] send qp=0x000012 wr_id=0x7 SEND 64"
		" bytes = RETRY_EXC_ERR vendor_err=0x81 <0.000005>\n"
		"0.000009 [pid 10 tid 11] recv qp=0x000012 wr_id=0x8 RECV 32"
		" bytes = not completed\n");
	free(is);
}

static void json(void **state)
{
	char *is = written(&ur_trace_json);

	assert_non_null(strstr(is, "{\"type\":\"start\",\"version\":1,"
				   "\"realtime_ns\":77,\"host\":\""));
	assert_line(is, 1,
		    "{\"type\":\"call\",\"t_ns\":1000,\"pid\":10,\"tid\":11,"
		    "\"comm\":\"a\\\"b\",\"name\":\"ibv_open_device\","
		    "\"class\":\"verbs\",\"args\":{\"device\":\"urnic0\","
		    "\"n\":\"3\"},\"result\":0,\"dur_ns\":1500,"
		    "\"errno\":\"EINVAL\",\"out\":{\"out\":\"x\\\"\\u000a\"}}");
	assert_line(is, 2,
		    "{\"type\":\"unfinished\",\"t_ns\":2500,\"pid\":10,"
		    "\"tid\":11,\"comm\":\"a\\\"b\","
		    "\"name\":\"ibv_open_device\",\"class\":\"verbs\","
		    "\"args\":{\"device\":\"urnic0\",\"n\":\"3\"}}");
	assert_line(is, 4,
		    "{\"type\":\"empty_polls\",\"t_ns\":5000,\"pid\":10,"
		    "\"tid\":11,\"comm\":\"a\\\"b\",\"count\":9,"
		    "\"dur_ns\":2000}");
	assert_line(is, 5,
		    "{\"type\":\"wr\",\"t_ns\":8000,\"pid\":10,\"tid\":11,"
		    "\"comm\":\"a\\\"b\",\"queue\":\"send\",\"qp\":18,"
		    "\"wr_id\":\"0x7\",\"opcode\":\"SEND\",\"bytes\":64,"
		    "\"implied\":false,\"posted_ns\":3000,"
		    "\"status\":\"RETRY_EXC_ERR\",\"vendor_err\":129,"
		    "\"latency_ns\":5000,\"message\":\"abc\"}");
	assert_line(is, 6,
		    "{\"type\":\"wr\",\"t_ns\":9000,\"pid\":10,\"tid\":11,"
		    "\"comm\":\"a\\\"b\",\"queue\":\"recv\",\"qp\":18,"
		    "\"wr_id\":\"0x8\",\"opcode\":\"RECV\",\"bytes\":32,"
		    "\"implied\":false,\"posted_ns\":3000}");
	assert_line(is, 7, "{\"type\":\"end\",\"lost\":4}");
	free(is);
}

static void counts(void **state)
{
	char *is = written(&ur_trace_count);

	assert_string_equal(
		is,
		"     seconds     us/call      max us     calls  errors  call\n"
		"    0.000002       1.500       1.500         2       1"
		"  ibv_open_device\n"
		"    0.000001       1.000       1.000         1       0"
		"  ibv_post_send\n"
		"                                             9       0"
		"  polls that found nothing\n"
		"     seconds       us/wr      max us  requests  errors"
		"  request\n"
		"    0.000005       5.000       5.000         1       1"
		"  SEND, 64 bytes\n"
		"    0.000000       0.000       0.000         1       0"
		"  RECV, 32 bytes\n");
	free(is);
}

static void perfetto(void **state)
{
	char *is = written(&ur_trace_perfetto);

	assert_line(
		is, 3,
		"{\"ph\":\"M\",\"pid\":10,\"tid\":11,\"ts\":0.000,"
		"\"name\":\"process_name\",\"args\":{\"name\":\"a\\\"b\"}},");
	assert_line(is, 4,
		    "{\"ph\":\"X\",\"pid\":10,\"tid\":11,\"ts\":1.000,"
		    "\"dur\":1.500,\"cat\":\"verbs\","
		    "\"name\":\"ibv_open_device\",\"args\":{"
		    "\"device\":\"urnic0\",\"n\":\"3\","
		    "\"out\":\"x\\\"\\u000a\",\"=\":\"0\","
		    "\"errno\":\"EINVAL\"}},");
	assert_line(
		is, 8,
		"{\"ph\":\"b\",\"pid\":10,\"tid\":11,\"ts\":3.000,"
		"\"cat\":\"wr\",\"id\":\"0x1\",\"name\":\"SEND qp 0x000012\","
		"\"args\":{\"wr_id\":\"0x7\",\"bytes\":64,"
		"\"status\":\"RETRY_EXC_ERR\",\"implied\":false}},");
	assert_line(is, 9,
		    "{\"ph\":\"e\",\"pid\":10,\"tid\":11,\"ts\":8.000,"
		    "\"cat\":\"wr\",\"id\":\"0x1\",\"name\":\"SEND qp "
		    "0x000012\"},");
	assert_line(
		is, 10,
		"{\"ph\":\"s\",\"pid\":10,\"tid\":11,\"ts\":3.000,"
		"\"cat\":\"message\",\"name\":\"message\",\"id\":\"0xabc\"},");
	free(is);
}

/* --- merge --- */

static void put_file(char path[], const char *boot, uint64_t real,
		     const char *events)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	dprintf(fd,
		"{\"otherData\":{\"urnic_trace\":1,\"realtime_ns\":\"%llu\","
		"\"monotonic_ns\":\"5000\",\"host\":\"h\",\"boot\":\"%s\"},"
		"\"traceEvents\":[%s]}",
		(unsigned long long)real, boot, events);
	close(fd);
}

#define END(ph, ts, id)                                                        \
	"{\"ph\":\"" ph "\",\"pid\":1,\"tid\":1,\"ts\":" ts                    \
	",\"name\":\"message\",\"id\":\"" id "\"}"

/* The second clock is 1000 us ahead, each message travels 10 us. */
static void merged(void **state)
{
	char a[] = "/tmp/ur_trace_a_XXXXXX", b[] = "/tmp/ur_trace_b_XXXXXX";
	char out[] = "/tmp/ur_trace_c_XXXXXX", is[4096] = "";
	char *files[] = { a, b };
	int fd = mkstemp(out);
	FILE *f;

	assert_true(fd >= 0);
	close(fd);
	put_file(a, "one", 100000,
		 END("s", "100.0", "0x1") "," END("f", "310.0", "0x2"));
	put_file(b, "two", 100000,
		 END("f", "1110.0", "0x1") "," END("s", "1300.0", "0x2"));
	assert_int_equal(ur_trace_merge(out, 2, files), 0);
	f = fopen(out, "re");
	assert_non_null(f);
	assert_true(fread(is, 1, sizeof(is) - 1, f) > 0);
	(void)fclose(f);
	assert_line(is, 3, END("s", "100.000", "0x1") ",");
	assert_line(is, 4, END("f", "310.000", "0x2") ",");
	assert_non_null(
		strstr(is, "\"pid\":10000001,\"tid\":1,\"ts\":110.000"));
	assert_non_null(
		strstr(is, "\"pid\":10000001,\"tid\":1,\"ts\":300.000"));
	unlink(a);
	unlink(b);
	unlink(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text),	  cmocka_unit_test(json),
		cmocka_unit_test(counts), cmocka_unit_test(perfetto),
		cmocka_unit_test(merged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
