#include "server/http/io_thread.h"

#include "server/http/handshakes.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <microhttpd.h>
#include <unistd.h>

/* Longest round without an event. Limits how long a stop takes if the thread cannot be woken. */
enum { ROUND_MS = 1000 };

static void *run(void *context)
{
    struct td_io_thread *thread = context;
    (void)pthread_setname_np(pthread_self(), "io");
    while (!td_io_thread_is_stopping(thread)) {
        (void)MHD_run_wait(thread->library, ROUND_MS);
        td_handshakes_submit(thread->handshakes, &thread->prepared);
    }
    return NULL;
}

bool td_io_thread_start(struct td_io_thread *thread, struct MHD_Daemon *library,
                        struct td_handshakes *handshakes)
{
    thread->library = library;
    thread->handshakes = handshakes;
    thread->waker = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (thread->waker < 0)
        return false;
    thread->running = pthread_create(&thread->thread, NULL, run, thread) == 0;
    if (!thread->running)
        close(thread->waker);
    return thread->running;
}

void td_io_thread_stop(struct td_io_thread *thread)
{
    static const struct sockaddr_in nobody = { .sin_family = AF_INET };
    if (!thread->running)
        return;
    atomic_store_explicit(&thread->stopping, true, memory_order_release);
    /* A new connection is the only event that a program can cause in the library. */
    (void)MHD_add_connection(thread->library, thread->waker, (const struct sockaddr *)&nobody,
                             sizeof nobody);
    pthread_join(thread->thread, NULL);
    thread->running = false;
}

bool td_io_thread_is_stopping(const struct td_io_thread *thread)
{
    return atomic_load_explicit(&thread->stopping, memory_order_acquire);
}
