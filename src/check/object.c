/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of the program, and where each was made and ended. */
#include "check/internal.h"

#define BUCKETS	  4096
/* Ended objects that are remembered */
#define ENDED_MAX 4096

static struct urk_object *by_address[BUCKETS];
static struct urk_object *by_number[BUCKETS];
static struct urk_object *newest;
static struct urk_object *ended[ENDED_MAX]; /* a ring */
static uint32_t ended_at;
static uint64_t serials;

static const char *const kinds[URK_KINDS] = {
	[URK_CONTEXT] = "context",     [URK_PD] = "protection domain",
	[URK_MR] = "memory region",    [URK_CHANNEL] = "completion channel",
	[URK_CQ] = "completion queue", [URK_SRQ] = "shared receive queue",
	[URK_QP] = "queue pair",       [URK_AH] = "address handle",
	[URK_DCT] = "DC target",
};

const char *urk_kind_name(enum urk_kind kind)
{
	return kinds[kind];
}

static struct urk_object **address_bucket(const void *ptr)
{
	return &by_address[((uintptr_t)ptr >> 4) * 0x9e3779b97f4a7c15u >> 52];
}

static struct urk_object **number_bucket(uint32_t number)
{
	return &by_number[number * 0x9e3779b9u >> 20];
}

struct urk_object *urk_object_add(enum urk_kind kind, const void *ptr,
				  const struct ibv_context *context,
				  uint32_t number)
{
	struct urk_object *o = urk_alloc(sizeof(*o)), **bucket;

	if (!o)
		return NULL;
	pthread_mutex_init(&o->posting, NULL);
	pthread_mutex_init(&o->lock, NULL);
	o->kind = kind;
	o->ptr = ptr;
	o->context = context;
	o->number = number;
	o->serial = ++serials;
	o->made = urk_stack_here();
	bucket = address_bucket(ptr);
	o->next = *bucket;
	*bucket = o;
	bucket = number_bucket(number);
	o->next_nr = *bucket;
	*bucket = o;
	o->older = newest;
	if (newest)
		newest->newer = o;
	newest = o;
	return o;
}

struct urk_object *urk_object_find(enum urk_kind kind, const void *ptr)
{
	struct urk_object *o;

	urk_lock();
	for (o = *address_bucket(ptr); o; o = o->next)
		if (o->ptr == ptr && o->kind == kind && !o->ended)
			break;
	urk_unlock();
	return o;
}

struct urk_object *urk_object_numbered(enum urk_kind kind,
				       const struct ibv_context *context,
				       uint32_t number)
{
	struct urk_object *o;

	urk_lock();
	for (o = *number_bucket(number); o; o = o->next_nr)
		if (o->number == number && o->kind == kind &&
		    (!context || o->context == context))
			break;
	urk_unlock();
	return o;
}

static void forget(struct urk_object *o)
{
	struct urk_object **p;

	for (p = address_bucket(o->ptr); *p != o; p = &(*p)->next)
		;
	*p = o->next;
	for (p = number_bucket(o->number); *p != o; p = &(*p)->next_nr)
		;
	*p = o->next_nr;
	*(o->newer ? &o->newer->older : &newest) = o->older;
	if (o->older)
		o->older->newer = o->newer;
	urk_queue_free(o->sends);
	urk_queue_free(o->receives);
	urk_free(o, sizeof(*o));
}

void urk_object_end(struct urk_object *o)
{
	o->ended = urk_stack_here();
}

void urk_object_back(struct urk_object *o)
{
	o->ended = NULL;
}

void urk_object_gone(struct urk_object *o)
{
	struct urk_object **slot;

	pthread_mutex_lock(&o->lock);
	urk_queue_free(o->sends);
	urk_queue_free(o->receives);
	o->sends = o->receives = NULL;
	pthread_mutex_unlock(&o->lock);
	urk_lock();
	slot = &ended[ended_at++ % ENDED_MAX];
	if (*slot)
		forget(*slot);
	*slot = o;
	urk_unlock();
}

struct urk_object *urk_objects(void)
{
	return newest;
}

void urk_objects_forget(void)
{
	while (newest)
		forget(newest);
	for (uint32_t i = 0; i < ENDED_MAX; i++)
		ended[i] = NULL;
}
