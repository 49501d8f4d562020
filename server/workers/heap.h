/* heap.h - a pairing heap: finds the node with the least key; any node can be removed.
 *
 * Nodes are members of the structs that they order, so nothing is allocated and nothing fails.
 *
 * Ownership  Borrows its nodes. A node is in one heap at a time, until it is removed.
 * Threads    Not synchronised.
 * Cost       insert and a smaller key O(1); remove and a larger key O(log n), amortised.
 * Source     Fredman, Sedgewick, Sleator, Tarjan: The Pairing Heap, 1986. */
#ifndef TD_SERVER_WORKERS_HEAP_H
#define TD_SERVER_WORKERS_HEAP_H

#include <stdint.h>

struct td_heap_node {
    uint64_t key;
    struct td_heap_node *child; /* the first one; no child has a smaller key */
    struct td_heap_node *next;  /* sibling */
    struct td_heap_node *prev;  /* sibling, or of the first one the parent; NULL: the root */
};

struct td_heap {
    struct td_heap_node *root; /* has the least key; NULL: empty */
};

void td_heap_insert(struct td_heap *heap, struct td_heap_node *node, uint64_t key);
void td_heap_remove(struct td_heap *heap, struct td_heap_node *node);

/* Changes the key of a node in the heap. */
void td_heap_update(struct td_heap *heap, struct td_heap_node *node, uint64_t key);

#endif
