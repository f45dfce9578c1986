// SPDX-License-Identifier: BSD-2-Clause
/*
 * A client of the key-value store (kv.h): gets and puts, and two commands that
 * try whether the store keeps its word while many use it.
 *
 *     kv_client HOST get KEY
 *     kv_client HOST put KEY VALUE
 *     kv_client HOST write KEY COUNT
 *     kv_client HOST watch KEY COUNT
 *
 * `write` puts the values 1 to COUNT one after the other, and `watch` gets the
 * key until it has seen COUNT.  A value is its number, over and over, in a
 * length that depends on the number: bytes of two values do not pass for one.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "kv_store.h"

#define MAX_WORDS (KV_VALUE_SIZE / sizeof(uint64_t))
#define MAX_COUNT 1000000000ul

/* A value with its number; how many bytes it has. */
static size_t make_value(uint64_t number, uint64_t *words)
{
	size_t n = 1 + number % MAX_WORDS;

	for (size_t i = 0; i < n; i++)
		words[i] = htole64(number);
	return n * sizeof(*words);
}

/* The number of the value in an entry; 0 if it is not one of ours. */
static uint64_t read_value(const struct kv_entry *entry)
{
	uint64_t number, words[MAX_WORDS];
	size_t length = le32toh(entry->length);

	memcpy(&number, entry->value, sizeof(number));
	number = le64toh(number);
	if (make_value(number, words) != length ||
	    memcmp(words, entry->value, length) != 0)
		return 0;
	return number;
}

static int get(struct kv_store *s, const char *key)
{
	const struct kv_entry *entry = &s->buffers.entry;
	int found = kv_get(s, key);

	if (found < 0)
		return -1;
	if (!found)
		return complain("no key '%s'", key);
	fwrite(entry->value, 1, le32toh(entry->length), stdout);
	putchar('\n');
	return 0;
}

static int put(struct kv_store *s, const char *key, const char *value)
{
	uint64_t version;

	return kv_set(s, key, value, strlen(value), &version);
}

/* Get a key that write is or was at; its number, 0 if it is not there. */
static int get_number(struct kv_store *s, const char *key, uint64_t least,
		      uint64_t *version, uint64_t *number)
{
	const struct kv_entry *entry = &s->buffers.entry;
	int found = kv_get(s, key);

	*number = *version = 0;
	if (!found && least)
		return complain("the key has vanished");
	if (found <= 0)
		return found;
	*number = read_value(entry);
	*version = le64toh(entry->version);
	if (!*number)
		return complain("version %lu is damaged",
				(unsigned long)*version);
	if (*version < least)
		return complain("version %lu after %lu",
				(unsigned long)*version, (unsigned long)least);
	return 0;
}

/* A client that has put a value gets that one or a later one from then on. */
static int write_values(struct kv_store *s, const char *key,
			unsigned long count)
{
	uint64_t words[MAX_WORDS], begun = now_ns();

	for (uint64_t i = 1; i <= count; i++) {
		uint64_t version, seen, number;

		if (kv_set(s, key, words, make_value(i, words), &version) ||
		    get_number(s, key, version, &seen, &number))
			return -1;
		if (seen < version || (seen == version && number != i))
			return complain("got %lu instead of %lu",
					(unsigned long)number,
					(unsigned long)i);
	}
	printf("%lu values put and got, in %.1f us each\n", count,
	       (double)(now_ns() - begun) / 1000 / (double)count);
	return 0;
}

/* A watcher sees whole values, and never an older one after a newer. */
static int watch(struct kv_store *s, const char *key, unsigned long count)
{
	uint64_t version = 0, number = 0, begun = now_ns();
	unsigned long gets = 0, values = 0;

	while (number < count) {
		uint64_t last = version;

		if (get_number(s, key, last, &version, &number))
			return -1;
		gets++;
		values += version != last;
	}
	printf("%lu gets saw %lu values, in %.1f us each; %lu reads were torn "
	       "and repeated\n",
	       gets, values, (double)(now_ns() - begun) / 1000 / (double)gets,
	       s->torn);
	return 0;
}

/* -2: there is no such command. */
static int run(struct kv_store *s, char *const *argv)
{
	const char *command = argv[0], *key = argv[1], *value = argv[2];
	unsigned long count;

	if (!value)
		return strcmp(command, "get") == 0 ? get(s, key) : -2;
	if (strcmp(command, "put") == 0)
		return put(s, key, value);
	if (!parse_number(value, 1, MAX_COUNT, &count))
		return -2;
	if (strcmp(command, "write") == 0)
		return write_values(s, key, count);
	if (strcmp(command, "watch") == 0)
		return watch(s, key, count);
	return -2;
}

static int usage(FILE *to, int status)
{
	fputs("usage: kv_client [-p PORT] [-e] HOST COMMAND\n"
	      "  get KEY            print its value\n"
	      "  put KEY VALUE      store a value\n"
	      "  write KEY COUNT    store the test values 1 to COUNT\n"
	      "  watch KEY COUNT    get until COUNT is there, check each\n"
	      "  -p, --port PORT    " KV_PORT " if not given\n"
	      "  -e, --events       sleep while the server works, do not poll\n",
	      to);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "events", no_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *port = KV_PORT;
	struct kv_store store = { 0 };
	int c, err;

	while ((c = getopt_long(argc, argv, "+p:eh", names, NULL)) != -1) {
		if (c == 'h')
			return usage(stdout, 0);
		if (c == '?')
			return usage(stderr, 2);
		if (c == 'p')
			port = optarg;
		else
			store.sleep = true;
	}
	if (argc - optind < 3 || argc - optind > 4)
		return usage(stderr, 2);
	err = kv_open(&store, argv[optind], port);
	if (!err)
		err = run(&store, argv + optind + 1);
	kv_close(&store);
	return err == -2 ? usage(stderr, 2) : err ? 1 : 0;
}
