/* Who may change a name, and who is next. */
#include "server/store/changes/writer_queue.h"
#include "server/store/store.h"
#include "tests/server/counting.h"
#include "tests/server/folder.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>

static struct counting counting;

static struct td_store *open_store(void)
{
    counting_init(&counting);
    return td_store_open(&(struct td_store_options){
        .dir = "", .quota = 1 << 20, .memory = &counting.memory, .log = &store_log });
}

/* A request that changes tensors, and how often its turn has come. */
struct request {
    struct td_writer writer; /* first: is_ready casts back */
    int ready;
};

static void is_ready(struct td_writer *writer)
{
    ((struct request *)(void *)writer)->ready++;
}

static struct request request(const char *const *names, int n)
{
    return (struct request){
        .writer = { .names = names, .n_names = n, .deadline_ns = INT64_MAX, .ready = is_ready }
    };
}

static const char *const A[] = { "a" }, *const B[] = { "b" }, *const A_AND_B[] = { "a", "b" },
                         *const X_OF_V[] = { "x@v" };

TD_TEST(a_writer_waits_for_the_writer_of_the_same_name_only)
{
    struct td_store *store = open_store();
    struct request first = request(A, 1), second = request(A, 1), other = request(B, 1);
    ck_assert(td_writer_enter(store, &first.writer));
    ck_assert(!td_writer_enter(store, &second.writer));
    ck_assert(td_writer_enter(store, &other.writer));
    ck_assert_int_eq(td_writers_waiting(store), 1);
    td_writer_leave(store, &other.writer);
    ck_assert_int_eq(second.ready, 0);
    td_writer_leave(store, &first.writer);
    ck_assert_int_eq(second.ready, 1);
    ck_assert(td_writer_has_entered(&second.writer));
    ck_assert_int_eq(first.ready + other.ready, 0);
    td_writer_leave(store, &second.writer);
    td_store_free(store);
}

TD_TEST(writers_of_a_name_enter_in_the_order_in_which_they_came)
{
    struct td_store *store = open_store();
    struct request requests[100];
    for (int i = 0; i < 100; i++) {
        requests[i] = request(A, 1);
        ck_assert(td_writer_enter(store, &requests[i].writer) == (i == 0));
    }
    for (int i = 0; i < 100; i++) {
        ck_assert(td_writer_has_entered(&requests[i].writer));
        ck_assert(i == 99 || !td_writer_has_entered(&requests[i + 1].writer));
        td_writer_leave(store, &requests[i].writer);
    }
    ck_assert_int_eq(td_writers_waiting(store), 0);
    td_store_free(store);
}

TD_TEST(more_writers_than_are_told_at_a_time_enter_when_one_that_excludes_all_leaves)
{
    enum { MANY = 200 };
    struct td_store *store = open_store();
    char texts[MANY][16];
    const char *names[MANY];
    struct request all, each[MANY];
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "name%03d", i);
        names[i] = texts[i];
        each[i] = request(&names[i], 1);
    }
    all = request(names, MANY);
    ck_assert(td_writer_enter(store, &all.writer));
    for (int i = 0; i < MANY; i++)
        ck_assert(!td_writer_enter(store, &each[i].writer));
    td_writer_leave(store, &all.writer);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(each[i].ready, 1);
        td_writer_leave(store, &each[i].writer);
    }
    td_store_free(store);
}

TD_TEST(a_writer_of_several_names_gets_all_of_them_or_none)
{
    struct td_store *store = open_store();
    struct request first = request(B, 1), both = request(A_AND_B, 2), third = request(A, 1);
    ck_assert(td_writer_enter(store, &first.writer));
    ck_assert(!td_writer_enter(store, &both.writer));
    ck_assert(!td_writer_enter(store, &third.writer)); /* "a" is free, but `both` came earlier */
    td_writer_leave(store, &first.writer);
    ck_assert_int_eq(both.ready, 1);
    ck_assert_int_eq(third.ready, 0);
    td_writer_leave(store, &both.writer);
    ck_assert_int_eq(third.ready, 1);
    td_writer_leave(store, &third.writer);
    td_store_free(store);
}

TD_TEST(a_writer_of_a_version_excludes_its_names_and_one_of_the_aliases_other_flips)
{
    struct td_store *store = open_store();
    struct td_writer of_version = { .version = "v" }, flip = { .aliases = true },
                     flip_too = { .aliases = true };
    struct request name = request(X_OF_V, 1), other = request(A, 1);
    ck_assert(td_writer_try(store, &of_version));
    ck_assert(!td_writer_try(store, &name.writer));
    ck_assert(td_writer_try(store, &flip));
    ck_assert(!td_writer_try(store, &flip_too));
    ck_assert(td_writer_try(store, &other.writer));
    ck_assert_int_eq(td_writers_waiting(store), 0);
    td_writer_leave(store, &of_version);
    ck_assert(td_writer_try(store, &name.writer));
    ck_assert(!td_writer_try(store, &of_version));
    td_writer_leave(store, &name.writer);
    td_writer_leave(store, &flip);
    td_writer_leave(store, &other.writer);
    td_store_free(store);
}

TD_TEST(a_wait_ends_at_its_deadline_and_lets_the_writers_behind_it_enter)
{
    struct td_store *store = open_store();
    struct request first = request(B, 1), late = request(A_AND_B, 2), behind = request(A, 1);
    late.writer.deadline_ns = 1000;
    ck_assert(td_writer_enter(store, &first.writer));
    ck_assert(!td_writer_enter(store, &late.writer));
    ck_assert(!td_writer_enter(store, &behind.writer));
    td_writers_expire(store, 999, false);
    ck_assert_int_eq(late.ready, 0);
    td_writers_expire(store, 1000, false);
    ck_assert_int_eq(late.ready, 1);
    ck_assert(!td_writer_has_entered(&late.writer));
    ck_assert_int_eq(behind.ready, 1);
    ck_assert(td_writer_has_entered(&behind.writer));
    td_writer_leave(store, &behind.writer);
    td_writer_leave(store, &first.writer);
    ck_assert_int_eq(late.ready, 1);
    td_store_free(store);
}

TD_TEST(all_waits_end_when_the_server_stops)
{
    struct td_store *store = open_store();
    struct request first = request(A, 1), second = request(A, 1), third = request(A, 1);
    ck_assert(td_writer_enter(store, &first.writer));
    ck_assert(!td_writer_enter(store, &second.writer));
    ck_assert(!td_writer_enter(store, &third.writer));
    td_writers_expire(store, 0, true);
    ck_assert_int_eq(second.ready, 1);
    ck_assert_int_eq(third.ready, 1);
    ck_assert(!td_writer_has_entered(&second.writer) && !td_writer_has_entered(&third.writer));
    td_writer_leave(store, &first.writer);
    td_store_free(store);
}

struct blocked {
    struct td_store *store;
    struct td_writer writer;
};

static void *wait_to_enter(void *argument)
{
    struct blocked *blocked = argument;
    td_writer_wait(blocked->store, &blocked->writer);
    return NULL;
}

TD_TEST(a_thread_that_waits_enters_before_the_writers_that_came_after_it)
{
    struct td_store *store = open_store();
    struct request first = request(A, 1), behind = request(A, 1);
    struct blocked blocked = { store, { .names = A, .n_names = 1 } };
    pthread_t thread;
    ck_assert(td_writer_enter(store, &first.writer));
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_to_enter, &blocked), 0);
    EVENTUALLY(td_writers_waiting(store) == 1);
    ck_assert(!td_writer_enter(store, &behind.writer));
    td_writers_expire(store, INT64_MAX, true); /* ends no wait of a thread */
    ck_assert_int_eq(behind.ready, 1);
    ck_assert(!td_writer_enter(store, &behind.writer));
    td_writer_leave(store, &first.writer);
    pthread_join(thread, NULL);
    ck_assert_int_eq(behind.ready, 1);
    td_writer_leave(store, &blocked.writer);
    ck_assert_int_eq(behind.ready, 2);
    td_writer_leave(store, &behind.writer);
    td_store_free(store);
}

TD_TEST(a_thread_that_holds_names_never_waits_for_a_writer_that_waits_for_them)
{
    struct td_store *store = open_store();
    struct td_writer scan = { .version = "v" }, aliases = { .aliases = true };
    struct request both =
        request(X_OF_V, 1); /* waits for the scan, and has the aliases in its turn */
    both.writer.aliases = true;
    ck_assert(td_writer_try(store, &scan));
    ck_assert(!td_writer_enter(store, &both.writer));
    td_writer_wait(store, &aliases);
    td_writer_leave(store, &aliases);
    td_writer_leave(store, &scan);
    ck_assert_int_eq(both.ready, 1);
    td_writer_leave(store, &both.writer);
    td_store_free(store);
}
