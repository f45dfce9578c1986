/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list.  A node that is not on any list points at
 * itself, so that ur_list_del() is idempotent and membership can be asked.
 */
#ifndef UR_BASE_LIST_H
#define UR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ur_list {
	struct ur_list *next;
	struct ur_list *prev;
};

#define ur_container_of(ptr, type, member)                                     \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* At the end e is computed from the head: no object is there. */
#define ur_list_is_end_(type, e, head, member)                                 \
	((const char *)(e) + offsetof(type, member) == (const char *)(head))

/* The objects of the list in turn: a variable `e` of `type *`. */
#define ur_list_each(type, e, head, member)                                    \
	for (type *e = ur_container_of((head)->next, type, member);            \
	     !ur_list_is_end_(type, e, head, member);                          \
	     e = ur_container_of(e->member.next, type, member))

/* The current object may be removed and freed by the body. */
#define ur_list_each_safe(type, e, head, member)                               \
	for (type *e = ur_container_of((head)->next, type, member), *e##_next; \
	     !ur_list_is_end_(type, e, head, member) &&                        \
	     (e##_next = ur_container_of(e->member.next, type, member), true); \
	     e = e##_next)

static inline void ur_list_init(struct ur_list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool ur_list_empty(const struct ur_list *l)
{
	return l->next == l;
}

static inline void ur_list_add_tail(struct ur_list *head, struct ur_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void ur_list_add_head(struct ur_list *head, struct ur_list *n)
{
	ur_list_add_tail(head->next, n);
}

/* Append all of `from`, which is empty then. */
static inline void ur_list_move_all(struct ur_list *head, struct ur_list *from)
{
	if (ur_list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	ur_list_init(from);
}

static inline void ur_list_del(struct ur_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	ur_list_init(n);
}

#endif
