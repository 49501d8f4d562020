#include "server/workers/heap.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdbool.h>

enum { NODES = 200 };

/* Takes all nodes of the heap; their keys must ascend. Returns their number. */
static int take_all(struct td_heap *heap)
{
    uint64_t last = 0;
    int n = 0;
    for (; heap->root; n++) {
        struct td_heap_node *node = heap->root;
        ck_assert_uint_ge(node->key, last);
        last = node->key;
        td_heap_remove(heap, node);
    }
    return n;
}

TD_TEST(the_root_has_the_least_key)
{
    static const uint64_t keys[] = { 5, 3, 9, 3, UINT64_MAX, 0, 7 };
    static const uint64_t roots[] = { 5, 3, 3, 3, 3, 0, 0 };
    struct td_heap heap = { 0 };
    struct td_heap_node nodes[COUNT_OF(keys)];
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        td_heap_insert(&heap, &nodes[i], keys[i]);
        ck_assert_uint_eq(heap.root->key, roots[i]);
    }
    ck_assert_int_eq(take_all(&heap), COUNT_OF(keys));
    ck_assert_ptr_null(heap.root);
}

TD_TEST_LOOP(any_node_can_be_removed_or_get_another_key, 0, 5)
{
    struct td_heap heap = { 0 };
    struct td_heap_node nodes[NODES];
    bool is_in[NODES] = { false };
    random_seed((uint64_t)_i + 1);
    for (int step = 0; step < 5000; step++) {
        const int i = random_below(NODES);
        const uint64_t key = (uint64_t)random_below(50); /* many are equal */
        const bool remove = random_below(2) == 0;
        if (!is_in[i])
            td_heap_insert(&heap, &nodes[i], key);
        else if (remove)
            td_heap_remove(&heap, &nodes[i]);
        else
            td_heap_update(&heap, &nodes[i], key);
        is_in[i] = !is_in[i] || !remove;
        uint64_t least = UINT64_MAX;
        for (int j = 0; j < NODES; j++)
            if (is_in[j] && nodes[j].key < least)
                least = nodes[j].key;
        ck_assert_uint_eq(heap.root ? heap.root->key : UINT64_MAX, least);
    }
    int n = 0;
    for (int i = 0; i < NODES; i++)
        n += is_in[i];
    ck_assert_int_eq(take_all(&heap), n);
}
