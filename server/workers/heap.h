/* heap.h - a pairing heap: finds the node with the smallest key, and can remove any node.
 *
 * Nodes are members of the structs that they order, so the heap allocates no memory, and no
 * function can fail.
 *
 * Ownership  The heap borrows its nodes. A node is in one heap at a time, until it is removed.
 * Threads    One thread at a time.
 * Cost       Inserting and decreasing a key take O(1), removing and increasing a key O(log n),
 *            amortised.
 * Source     Fredman, Sedgewick, Sleator, Tarjan: The Pairing Heap, 1986. */
#ifndef TD_SERVER_WORKERS_HEAP_H
#define TD_SERVER_WORKERS_HEAP_H

#include <stdint.h>

struct td_heap_node {
    uint64_t key;
    struct td_heap_node *child; /* first child; no child has a smaller key */
    struct td_heap_node *next;  /* next sibling */
    /* Previous sibling, or the parent for a first child. NULL for the root. */
    struct td_heap_node *prev;
};

struct td_heap {
    struct td_heap_node *root; /* node with the smallest key, or NULL if the heap is empty */
};

void td_heap_insert(struct td_heap *heap, struct td_heap_node *node, uint64_t key);
void td_heap_remove(struct td_heap *heap, struct td_heap_node *node);

/* Changes the key of a node that is in the heap. */
void td_heap_update(struct td_heap *heap, struct td_heap_node *node, uint64_t key);

#endif
