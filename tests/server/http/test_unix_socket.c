#include "server/http/listener.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOBODY = 65534 };

#define TEMPLATE "/tmp/td-sockets-XXXXXX"
static char folder[] = TEMPLATE;
static char path[sizeof folder + 2], address[sizeof path + 5];
static struct td_listeners listeners;
static const char *why;

static void set_up(void)
{
    strcpy(folder, TEMPLATE);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(address, sizeof address, "unix:%s", path);
}

static void tear_down(void)
{
    td_listeners_close(&listeners);
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no other file is left */
}

static bool open_listener(void)
{
    return td_listeners_add(&listeners, address, td_listener_open, &why);
}

static bool has_file(void)
{
    struct stat file;
    return lstat(path, &file) == 0;
}

static bool has_mode(mode_t mode)
{
    struct stat file;
    return lstat(path, &file) == 0 && file.st_mode == (S_IFSOCK | mode);
}

static struct sockaddr_un socket_address(void)
{
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
    return local;
}

/* A connected socket, or -1. */
static int connect_here(void)
{
    const struct sockaddr_un local = socket_address();
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&local, sizeof local) == 0)
        return fd;
    close(fd);
    return -1;
}

/* A socket of another process, which may have ended. */
static int bind_here(int type)
{
    const struct sockaddr_un local = socket_address();
    const int fd = socket(AF_UNIX, type, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&local, sizeof local), 0);
    return fd;
}

TD_TEST(a_unix_socket_listens_at_its_path_and_is_not_inherited_by_programs)
{
    char text[256];
    ck_assert_msg(open_listener(), "%s", why);
    const struct td_listener *listener = &listeners.all[0];
    ck_assert(td_listener_is_unix(&listener->bound));
    ck_assert(td_listener_is_local(&listener->bound));
    ck_assert(!td_listener_is_loopback(&listener->bound));
    td_listener_print(&listener->bound, text, sizeof text);
    ck_assert_str_eq(text, address);
    ck_assert_int_eq(fcntl(listener->fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(fcntl(listener->fd, F_GETFL) & O_NONBLOCK, 0);
    const int client = connect_here();
    const int accepted = accept(listener->fd, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(send(client, "x", 1, 0), 1);
    char byte = 0;
    ck_assert_int_eq(recv(accepted, &byte, 1, 0), 1);
    close(client);
    close(accepted);
}

TD_TEST(only_the_owner_can_connect_until_the_mode_is_set)
{
    const mode_t mask = umask(0);
    ck_assert(open_listener());
    ck_assert(has_mode(0600));
    (void)umask(0777); /* does not apply */
    ck_assert(td_listener_set_mode(&listeners.all[0], 0642, &why));
    ck_assert(has_mode(0642));
    (void)umask(mask);
}

TD_TEST(the_mode_decides_who_can_connect)
{
    if (geteuid() != 0)
        return; /* permissions need two users */
    ck_assert(open_listener());
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(seteuid(NOBODY), 0);
    ck_assert_int_eq(connect_here(), -1);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert(td_listener_set_mode(&listeners.all[0], 0666, &why));
    ck_assert_int_eq(seteuid(NOBODY), 0);
    const int client = connect_here();
    ck_assert_int_ge(client, 0);
    close(client);
    ck_assert_int_eq(seteuid(0), 0);
}

TD_TEST(a_socket_on_which_no_process_listens_is_replaced)
{
    close(bind_here(SOCK_STREAM));
    ck_assert_int_eq(connect_here(), -1);
    ck_assert_msg(open_listener(), "%s", why);
    close(connect_here());
}

TD_TEST(a_socket_on_which_a_process_listens_is_kept)
{
    const int other = bind_here(SOCK_STREAM);
    ck_assert_int_eq(listen(other, 0), 0);
    const int first = connect_here(); /* which fills the backlog */
    ck_assert(!open_listener());
    ck_assert_str_eq(why, "Address already in use");
    ck_assert_int_ge(accept(other, NULL, NULL), 0);
    ck_assert(!open_listener()); /* and now there is room */
    ck_assert_str_eq(why, "Address already in use");
    ck_assert(has_file());
    close(first);
    close(other);
}

TD_TEST(a_path_cannot_be_used_twice)
{
    ck_assert(open_listener());
    ck_assert(!open_listener());
    ck_assert_str_eq(why, "Address already in use");
    close(connect_here());
}

TD_TEST(a_socket_of_another_type_is_kept)
{
    const int other = bind_here(SOCK_DGRAM);
    ck_assert(!open_listener());
    ck_assert_str_eq(why, "Address already in use");
    ck_assert(has_file());
    close(other);
}

static void make_file(void)
{
    close(open(path, O_CREAT | O_EXCL | O_RDWR, 0600));
}

static void make_folder(void)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void make_link(void)
{
    ck_assert_int_eq(symlink("/tmp/td-no-such-file", path), 0);
}

static const struct {
    void (*make)(void);
    const char *why;
} others[] = {
    { make_file, "a file that is not a socket has this path; expected a socket or no file" },
    { make_folder, "a folder has this path; expected a socket or no file" },
    { make_link, "a symbolic link has this path; expected a socket or no file" },
};

TD_TEST_EACH(only_a_socket_is_replaced, others)
{
    others[_i].make();
    ck_assert(!open_listener());
    ck_assert_str_eq(why, others[_i].why);
    ck_assert(has_file());
    (void)rmdir(path);
}

TD_TEST(a_link_to_a_socket_is_not_followed)
{
    char target[sizeof path + 1];
    close(bind_here(SOCK_STREAM));
    snprintf(target, sizeof target, "%s2", path);
    ck_assert_int_eq(rename(path, target), 0);
    ck_assert_int_eq(symlink(target, path), 0);
    ck_assert(!open_listener());
    ck_assert_str_eq(why, "a symbolic link has this path; expected a socket or no file");
    ck_assert_int_eq(unlink(target), 0);
}

TD_TEST(a_folder_that_does_not_exist_is_named_in_the_error)
{
    ck_assert(!td_listeners_add(&listeners, "unix:/no/such/folder/s", td_listener_open, &why));
    ck_assert_str_eq(why, "the folder of the socket does not exist; create it first");
}

TD_TEST(a_folder_that_cannot_be_used_is_an_error)
{
    static const struct {
        mode_t mode;
        const char *why;
    } modes[] = { { 0711, "the folder of the socket cannot be read: Permission denied" },
                  { 0755, "Permission denied" } };
    if (geteuid() != 0)
        return; /* permissions need two users */
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        ck_assert_int_eq(chmod(folder, modes[i].mode), 0);
        ck_assert_int_eq(seteuid(NOBODY), 0);
        ck_assert(!open_listener());
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_str_eq(why, modes[i].why);
    }
}

TD_TEST(a_process_that_replaces_a_socket_locks_out_others)
{
    const int other = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    ck_assert(!open_listener());
    ck_assert_str_eq(why, "another process has locked the folder of the socket");
    ck_assert_int_eq(flock(other, LOCK_UN), 0);
    ck_assert(open_listener());
    ck_assert_int_eq(flock(other, LOCK_EX | LOCK_NB), 0); /* only while it opens the socket */
    close(other);
}

TD_TEST(the_file_is_removed_when_the_socket_is_closed)
{
    ck_assert(open_listener());
    td_listeners_close(&listeners);
    ck_assert(!has_file());
}

TD_TEST(the_file_of_another_socket_is_kept)
{
    ck_assert(open_listener());
    ck_assert_int_eq(unlink(path), 0);
    const int other = bind_here(SOCK_STREAM);
    td_listeners_close(&listeners);
    ck_assert(has_file());
    close(other);
}

TD_TEST(a_socket_that_is_shut_has_the_connections_before_and_a_successor_gets_those_after)
{
    struct td_listeners successor = { .n = 0 };
    ck_assert(open_listener());
    const int before = connect_here();
    td_listener_shut(&listeners.all[0]);
    ck_assert(!has_file());
    ck_assert(td_listeners_add(&successor, address, td_listener_open, &why));
    const int after = connect_here(), accepted = accept(listeners.all[0].fd, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(accept(listeners.all[0].fd, NULL, NULL), -1);
    td_listeners_close(&listeners);
    const int of_successor = accept(successor.all[0].fd, NULL, NULL);
    ck_assert_int_ge(of_successor, 0);
    ck_assert(has_file());
    td_listeners_close(&successor);
    close(before);
    close(after);
    close(accepted);
    close(of_successor);
}

TD_TEST(a_reserved_path_accepts_no_connections_and_leaves_no_file)
{
    ck_assert(td_listeners_add(&listeners, address, td_listener_reserve, &why));
    ck_assert(has_file());
    ck_assert_int_eq(connect_here(), -1);
    td_listeners_close(&listeners);
    ck_assert(!has_file());
}

TD_TEST(a_unix_socket_and_a_port_do_not_exclude_each_other)
{
    ck_assert(open_listener());
    ck_assert(td_listeners_add(&listeners, "127.0.0.1:0", td_listener_open, &why));
    ck_assert_int_eq(listeners.n, 2);
}

/* ---- sockets of a service manager ------------------------------------------------------------ */

enum { FIRST = 3 };

/* Takes the descriptor before Check does for its messages, which would go to the socket. */
__attribute__((constructor)) static void keep_descriptor(void)
{
    if (fcntl(FIRST, F_GETFD) < 0)
        (void)dup2(STDERR_FILENO, FIRST);
}

/* The listening socket is descriptor 3, and the variables are for this process. */
static void pass_socket(int fd)
{
    char number[16];
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(dup2(fd, FIRST), FIRST);
    snprintf(number, sizeof number, "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDS", "1", 1);
}

TD_TEST(a_socket_that_was_passed_is_used_and_its_file_is_kept)
{
    char message[TD_CONFIG_MESSAGE], text[256];
    pass_socket(bind_here(SOCK_STREAM));
    ck_assert_msg(td_listeners_inherit(&listeners, message), "%s", message);
    ck_assert_int_eq(listeners.n, 1);
    td_listener_print(&listeners.all[0].bound, text, sizeof text);
    ck_assert_str_eq(text, address);
    td_listeners_close(&listeners);
    ck_assert(has_file());
}

TD_TEST(an_abstract_socket_that_was_passed_is_refused)
{
    static const struct sockaddr_un abstract = { .sun_family = AF_UNIX };
    char message[TD_CONFIG_MESSAGE];
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    /* The kernel chooses an abstract name. */
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&abstract, sizeof abstract.sun_family), 0);
    pass_socket(fd);
    ck_assert(!td_listeners_inherit(&listeners, message));
    ck_assert_str_eq(message, "LISTEN_FDS is 1, but descriptor 3 is an abstract Unix socket, which "
                              "has no permissions; expected a path");
}

TD_FIXTURE(set_up, tear_down);
