#include "server/http/connections.h"

#include <sys/socket.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct td_connections {
    pthread_mutex_t mutex;  /* guards all below */
    struct pollfd *sockets; /* dense, unordered */
    int *place;             /* [socket]: its index in sockets, or -1 */
    int n_sockets, capacity, n_places;
};

struct td_connections *td_connections_new(void)
{
    struct td_connections *connections = calloc(1, sizeof *connections);
    if (connections)
        pthread_mutex_init(&connections->mutex, NULL);
    return connections;
}

void td_connections_free(struct td_connections *connections)
{
    if (!connections)
        return;
    pthread_mutex_destroy(&connections->mutex);
    free(connections->sockets);
    free(connections->place);
    free(connections);
}

static bool make_room(struct td_connections *connections, int socket)
{
    if (connections->n_sockets == connections->capacity) {
        const int capacity = connections->capacity ? 2 * connections->capacity : 64;
        struct pollfd *sockets = realloc(connections->sockets, (size_t)capacity * sizeof *sockets);
        if (!sockets)
            return false;
        connections->sockets = sockets;
        connections->capacity = capacity;
    }
    if (socket >= connections->n_places) {
        const int n_places = 2 * socket + 64;
        int *place = realloc(connections->place, (size_t)n_places * sizeof *place);
        if (!place)
            return false;
        for (int i = connections->n_places; i < n_places; i++)
            place[i] = -1;
        connections->place = place;
        connections->n_places = n_places;
    }
    return true;
}

void td_connections_add(struct td_connections *connections, int socket)
{
    pthread_mutex_lock(&connections->mutex);
    if (make_room(connections, socket)) {
        connections->place[socket] = connections->n_sockets;
        connections->sockets[connections->n_sockets++] =
            (struct pollfd){ .fd = socket, .events = POLLRDHUP };
    }
    pthread_mutex_unlock(&connections->mutex);
}

void td_connections_remove(struct td_connections *connections, int socket)
{
    pthread_mutex_lock(&connections->mutex);
    const int place = socket < connections->n_places ? connections->place[socket] : -1;
    if (place >= 0) {
        const struct pollfd last = connections->sockets[--connections->n_sockets];
        connections->sockets[place] = last;
        connections->place[last.fd] = place;
        connections->place[socket] = -1;
    }
    pthread_mutex_unlock(&connections->mutex);
}

void td_connections_nudge(struct td_connections *connections)
{
    pthread_mutex_lock(&connections->mutex);
    const int n = connections->n_sockets;
    if (n > 0 && poll(connections->sockets, (nfds_t)n, 0) > 0)
        for (int i = 0; i < n; i++)
            if (connections->sockets[i].revents & POLLRDHUP)
                shutdown(connections->sockets[i].fd, SHUT_RD);
    pthread_mutex_unlock(&connections->mutex);
}
