#include "server/workers/heap.h"

#include <stddef.h>

/* Joins two roots, which can be NULL. If the keys are equal, `a` remains the root. */
static struct td_heap_node *meld(struct td_heap_node *a, struct td_heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    struct td_heap_node *root = b->key < a->key ? b : a, *child = root == a ? b : a;
    child->prev = root;
    child->next = root->child;
    if (child->next)
        child->next->prev = child;
    root->child = child;
    return root;
}

/* Removes the first node from a list of siblings and makes it a root. */
static struct td_heap_node *take_first(struct td_heap_node **siblings)
{
    struct td_heap_node *node = *siblings;
    if (!node)
        return NULL;
    *siblings = node->next;
    node->next = node->prev = NULL;
    return node;
}

/* Joins siblings into one root: first in pairs, then the pairs from last to first. This order makes
 * the amortised cost logarithmic. */
static struct td_heap_node *meld_siblings(struct td_heap_node *siblings)
{
    struct td_heap_node *pairs = NULL, *root = NULL;
    while (siblings) {
        struct td_heap_node *a = take_first(&siblings), *pair = meld(a, take_first(&siblings));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs)
        root = meld(root, take_first(&pairs));
    return root;
}

void td_heap_insert(struct td_heap *heap, struct td_heap_node *node, uint64_t key)
{
    *node = (struct td_heap_node){ .key = key };
    heap->root = meld(heap->root, node);
}

void td_heap_remove(struct td_heap *heap, struct td_heap_node *node)
{
    struct td_heap_node *below = meld_siblings(node->child);
    if (!node->prev) {
        heap->root = below;
        return;
    }
    if (node->prev->child == node)
        node->prev->child = node->next;
    else
        node->prev->next = node->next;
    if (node->next)
        node->next->prev = node->prev;
    heap->root = meld(heap->root, below);
}

void td_heap_update(struct td_heap *heap, struct td_heap_node *node, uint64_t key)
{
    if (!node->prev && !node->child) { /* the only node */
        node->key = key;
        return;
    }
    td_heap_remove(heap, node);
    td_heap_insert(heap, node, key);
}
