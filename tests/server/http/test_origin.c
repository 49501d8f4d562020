#include "server/http/origin.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

/* ---- requests -------------------------------------------------------------------------------- */

static char message[512];

static struct td_origins *rules(const char *allow_origin, const char *allow_host)
{
    struct td_origins *origins = td_origins_new(allow_origin, allow_host, message, sizeof message);
    ck_assert_msg(origins != NULL, "%s", message);
    return origins;
}

static struct td_field field(const char *text)
{
    return (struct td_field){ text, text ? strlen(text) : 0 };
}

/* ---- Host ------------------------------------------------------------------------------------ */

static const char *const local_hosts[] = {
    "localhost",  "localhost:8080",    "localhost:",      "localhost:65535",     "LocalHost:8080",
    "localhost.", "localhost.:8080",   "a.localhost",     "a_b.c-d.localhost:1", "a.localhost.",
    "127.0.0.1",  "127.0.0.1:8080",    "127.255.255.255", "127.0.0.0:0",         "[::1]",
    "[::1]:8080", "[0:0:0:0:0:0:0:1]", "[0000::0001]:80", "[::0.0.0.1]",
};

TD_TEST_EACH(a_loopback_listener_accepts_its_own_names, local_hosts)
{
    struct td_origins *origins = rules("", "");
    struct td_origin_request request = { .host = field(local_hosts[_i]), .loopback = true };
    struct td_error err = { 0 };
    bool listed;
    ck_assert_msg(td_origin_check(origins, &request, &listed, &err) == TD_OK, "%s", err.message);
    ck_assert(!listed);
    td_origins_free(origins);
}

/* Hosts that a page could send after DNS rebinding, and hosts that only look local. */
static const char *const other_hosts[] = {
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "evil-localhost",
    "evillocalhost",
    "localhost.localdomain",
    "localhos",
    "ocalhost",
    ".localhost",
    "a..localhost",
    "localhost..",
    ".",
    "",
    ":8080",
    " localhost",
    "localhost ",
    "user@localhost",
    "user:secret@localhost",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "localhost/",
    "localhost#",
    "localhost,evil.example",
    "local%68ost",
    "localhost:http",
    "localhost:-1",
    "localhost:+80",
    "localhost:65536",
    "localhost:000080",
    "localhost:80:80",
    "lo\xc3\xb6"
    "calhost",
    "127.0.0.1.",
    "127.0.0.1.evil.example",
    "127.0.0.256",
    "127.0.0.1.1",
    "127.0.0",
    "127.1",
    "127.0.0.01",
    "127.0.0.0001",
    "0127.0.0.1",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "127..0.1",
    ".127.0.0.1",
    "127.0.0.1x",
    "128.0.0.1",
    "0.0.0.0",
    "192.168.0.1",
    "::1",
    "[::1",
    "::1]",
    "[::1]]",
    "[[::1]]",
    "[::1]8080",
    "[::1]:x",
    "[::1%lo]",
    "[::1%25lo]",
    "[::1%1]",
    "[::]",
    "[::2]",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[127.0.0.1]",
    "[localhost]",
    "[]",
    "[",
    "]",
    "[0:0:0:0:0:0:0:0:1]",
    "[00000000000000000000000000000000000000000000000::1]",
};

TD_TEST_EACH(any_other_host_is_refused_on_a_loopback_listener, other_hosts)
{
    struct td_origins *origins = rules("", "");
    struct td_origin_request request = { .host = field(other_hosts[_i]), .loopback = true };
    struct td_error err = { 0 };
    bool listed;
    ck_assert_msg(td_origin_check(origins, &request, &listed, &err) == TD_FORBIDDEN,
                  "'%s' is accepted", other_hosts[_i]);
    ck_assert_str_eq(err.attribute, "Host");
    ck_assert_msg(strstr(err.message, other_hosts[_i]) != NULL, "%s", err.message);
    td_origins_free(origins);
}

TD_TEST(a_host_ends_after_its_length)
{
    static const struct td_field with_nul[] = {
        { "localhost\0", 10 },     { "localhost\0.evil", 15 },
        { "evil\0localhost", 14 }, { "evil.example\0.localhost", 23 },
        { "127.0.0.1\0", 10 },     { "[::1\0]", 6 },
        { "[::1]\0", 6 },          { "localhost:8\0", 12 },
    };
    struct td_origins *origins = rules("", "");
    struct td_origin_request request = { .host = { "localhost.evil.example", 9 },
                                         .loopback = true };
    struct td_error err;
    bool listed;
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_OK);
    for (size_t i = 0; i < COUNT_OF(with_nul); i++) {
        request.host = with_nul[i];
        ck_assert_msg(td_origin_check(origins, &request, &listed, &err) == TD_FORBIDDEN, "%zu", i);
    }
    td_origins_free(origins);
}

TD_TEST(a_very_long_host_is_refused_and_truncated_in_the_message)
{
    static char host[30000];
    struct td_origins *origins = rules("", "");
    struct td_origin_request request = { .host = { host, sizeof host }, .loopback = true };
    struct td_error err;
    bool listed;
    memset(host, 'a', sizeof host);
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_FORBIDDEN);
    ck_assert_ptr_nonnull(strstr(err.message, "--allow-host"));
    memset(host, '1', sizeof host);
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_FORBIDDEN);
    host[0] = '[';
    host[sizeof host - 1] = ']';
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_FORBIDDEN);
    memset(host, 'a', sizeof host);
    memcpy(host + 300 - 10, ".localhost", 10);
    request.host.length = 300;
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_FORBIDDEN);
    request.host = (struct td_field){ host + 300 - 253, 253 };
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_OK);
    td_origins_free(origins);
}

TD_TEST(a_request_without_host_passes)
{
    struct td_origins *origins = rules("", "");
    const struct td_origin_request request = { .loopback = true };
    struct td_error err;
    bool listed;
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_OK);
    td_origins_free(origins);
}

static const struct {
    const char *description, *allow_host, *host;
    bool loopback, good;
} named_hosts[] = {
    { "a host in the list", "tensors.example", "tensors.example", true, true },
    { "... with any port", "tensors.example", "tensors.example:8443", true, true },
    { "... in any case", "Tensors.Example", "tensors.eXAMPLE", true, true },
    { "... with a trailing dot", "tensors.example", "tensors.example.:1", true, true },
    { "... listed with a trailing dot", "tensors.example.", "tensors.example", true, true },
    { "not a name under it", "tensors.example", "a.tensors.example", true, false },
    { "not a name that ends with it", "sors.example", "tensors.example", true, false },
    { "the second of a list", "a.example, b.example", "b.example", true, true },
    { "an address", "192.0.2.1", "192.0.2.1:80", true, true },
    { "not another address", "192.0.2.1", "192.0.2.11", true, false },
    { "an IPv6 address", "[2001:db8::1]", "[2001:DB8:0::1]:80", true, true },
    { "localhost besides", "tensors.example", "localhost", true, true },
    { "on other addresses any host", "", "evil.example", false, true },
    { "... even an invalid one", "", "user@x", false, true },
    { "... unless there is a list", "tensors.example", "evil.example", false, false },
    { "... which allows its hosts", "tensors.example", "tensors.example", false, true },
    { "... and local ones", "tensors.example", "127.0.0.1:8080", false, true },
};

TD_TEST_EACH(allow_host_names_further_hosts, named_hosts)
{
    struct td_origins *origins = rules("", named_hosts[_i].allow_host);
    struct td_origin_request request = { .host = field(named_hosts[_i].host),
                                         .loopback = named_hosts[_i].loopback };
    struct td_error err;
    bool listed;
    ck_assert_msg(td_origin_check(origins, &request, &listed, &err) ==
                      (named_hosts[_i].good ? TD_OK : TD_FORBIDDEN),
                  "%s", named_hosts[_i].description);
    td_origins_free(origins);
}

/* ---- Origin and Sec-Fetch-Site --------------------------------------------------------------- */

static const struct {
    const char *description, *host, *origin, *site;
    const char *at_fault; /* NULL: allowed */
} sites[] = {
    { "no browser", "localhost:8080", NULL, NULL, NULL },
    { "the server's own page", "localhost:8080", "http://localhost:8080", "same-origin", NULL },
    { "... of an older browser", "localhost:8080", "http://localhost:8080", NULL, NULL },
    { "a URL typed by the user", "localhost:8080", NULL, "none", NULL },
    { "the server's own page, a GET", "localhost:8080", NULL, "same-origin", NULL },
    { "a value that no browser sends yet", "localhost:8080", NULL, "sideways", NULL },
    { "another site", "localhost:8080", "https://evil.example", "cross-site", "Sec-Fetch-Site" },
    { "... a GET", "localhost:8080", NULL, "cross-site", "Sec-Fetch-Site" },
    { "another port of localhost", "localhost:8080", NULL, "same-site", "Sec-Fetch-Site" },
    { "... in another case", "localhost:8080", NULL, "Cross-Site", "Sec-Fetch-Site" },
    { "... even with the right origin", "localhost:8080", "http://localhost:8080", "cross-site",
      "Sec-Fetch-Site" },
    { "another origin", "localhost:8080", "https://evil.example", NULL, "Origin" },
    { "... even with the right site", "localhost:8080", "https://evil.example", "same-origin",
      "Origin" },
    { "... even with no site", "localhost:8080", "https://evil.example", "none", "Origin" },
    { "a page without origin", "localhost:8080", "null", NULL, "Origin" },
    { "an empty origin", "localhost:8080", "", NULL, "Origin" },
    { "another port", "localhost:8080", "http://localhost:3000", NULL, "Origin" },
    { "the default port", "localhost", "http://localhost", NULL, NULL },
    { "... on one side", "localhost:80", "http://localhost", NULL, NULL },
    { "... on the other", "localhost", "http://localhost:80", NULL, NULL },
    { "... of https", "localhost:443", "https://localhost", NULL, NULL },
    { "... of https is not that of http", "localhost:80", "https://localhost", NULL, "Origin" },
    { "... is not another port", "localhost:8080", "http://localhost", NULL, "Origin" },
    { "an empty port", "localhost:", "http://localhost", NULL, NULL },
    { "https before a proxy that forwards Host", "localhost", "https://localhost", NULL, NULL },
    { "case does not matter", "LOCALHOST:8080", "HTTP://localhost:8080", NULL, NULL },
    { "a trailing dot is another origin", "localhost.:8080", "http://localhost:8080", NULL,
      "Origin" },
    { "... unless both have it", "localhost.:8080", "http://localhost.:8080", NULL, NULL },
    { "another name of this machine", "127.0.0.1:8080", "http://localhost:8080", NULL, "Origin" },
    { "an address", "127.0.0.1:8080", "http://127.0.0.1:8080", NULL, NULL },
    { "another address", "127.0.0.1:8080", "http://127.0.0.2:8080", NULL, "Origin" },
    { "IPv6", "[::1]:8080", "http://[::1]:8080", NULL, NULL },
    { "... in another spelling", "[0::1]:8080", "http://[::1]:8080", NULL, NULL },
    { "... without brackets", "[::1]:8080", "http://::1:8080", NULL, "Origin" },
    { "... with a zone", "[::1]:8080", "http://[::1%25lo]:8080", NULL, "Origin" },
    { "a path", "localhost:8080", "http://localhost:8080/", NULL, "Origin" },
    { "a query", "localhost:8080", "http://localhost:8080?", NULL, "Origin" },
    { "userinfo", "localhost:8080", "http://a@localhost:8080", NULL, "Origin" },
    { "two origins", "localhost:8080", "http://localhost:8080 http://evil.example", NULL,
      "Origin" },
    { "no scheme", "localhost:8080", "localhost:8080", NULL, "Origin" },
    { "... but its slashes", "localhost:8080", "//localhost:8080", NULL, "Origin" },
    { "one slash after the scheme", "localhost:8080", "http:/localhost:8080", NULL, "Origin" },
    { "a scheme without a host", "localhost:8080", "http://", NULL, "Origin" },
    { "... nor slashes", "localhost:8080", "http:", NULL, "Origin" },
    { "a scheme other than http and https", "localhost:8080", "app://localhost:8080", NULL,
      "Origin" },
    { "a file", "localhost:8080", "file://", NULL, "Origin" },
    { "a name that begins with it", "localhost:8080", "http://localhost:8080.evil.example", NULL,
      "Origin" },
    { "a name that ends with it", "localhost:8080", "http://evil-localhost:8080", NULL, "Origin" },
    { "an origin without a host to compare with", NULL, "http://localhost", NULL, "Origin" },
};

TD_TEST_EACH(pages_of_other_sites_are_refused, sites)
{
    struct td_origins *origins = rules("", "");
    struct td_origin_request request = { .host = field(sites[_i].host),
                                         .origin = field(sites[_i].origin),
                                         .sec_fetch_site = field(sites[_i].site),
                                         .loopback = true };
    struct td_error err = { 0 };
    bool listed;
    const td_status status = td_origin_check(origins, &request, &listed, &err);
    ck_assert_msg(status == (sites[_i].at_fault ? TD_FORBIDDEN : TD_OK), "%s",
                  sites[_i].description);
    if (status != TD_OK)
        ck_assert_str_eq(err.attribute, sites[_i].at_fault);
    ck_assert(!listed);
    td_origins_free(origins);
}

static const struct {
    const char *description, *allow_origin, *origin;
    bool listed;
} listings[] = {
    { "the origin in the list", "https://a.example", "https://a.example", true },
    { "... with its default port", "https://a.example", "https://a.example:443", true },
    { "... listed with its default port", "http://a.example:80", "http://a.example", true },
    { "... in any case", "HTTPS://A.example", "https://a.EXAMPLE", true },
    { "one of a list", "https://a.example,http://localhost:3000", "http://localhost:3000", true },
    { "... with blanks", " https://a.example , http://b.example ", "http://b.example", true },
    { "another scheme", "https://a.example", "http://a.example", false },
    { "another port", "https://a.example", "https://a.example:8443", false },
    { "another host", "https://a.example", "https://b.example", false },
    { "a name under it", "https://a.example", "https://b.a.example", false },
    { "no origin", "https://a.example", "null", false },
    { "IPv6", "http://[::1]:3000", "http://[::1]:3000", true },
    { "a browser's extension", "app-x://abc", "app-x://abc", true },
};

TD_TEST_EACH(allow_origin_names_the_pages_that_may_use_the_server, listings)
{
    struct td_origins *origins = rules(listings[_i].allow_origin, "");
    struct td_origin_request request = { .host = field("localhost:8080"),
                                         .origin = field(listings[_i].origin),
                                         .sec_fetch_site = field("cross-site"),
                                         .loopback = true };
    struct td_error err;
    bool listed;
    ck_assert_msg(td_origin_check(origins, &request, &listed, &err) ==
                      (listings[_i].listed ? TD_OK : TD_FORBIDDEN),
                  "%s", listings[_i].description);
    ck_assert_int_eq(listed, listings[_i].listed);
    td_origins_free(origins);
}

TD_TEST(a_listed_origin_may_read_the_refusal_of_its_host)
{
    struct td_origins *origins = rules("https://a.example", "");
    struct td_origin_request request = { .host = field("evil.example"),
                                         .origin = field("https://a.example"),
                                         .loopback = true };
    struct td_error err;
    bool listed;
    ck_assert_int_eq(td_origin_check(origins, &request, &listed, &err), TD_FORBIDDEN);
    ck_assert_str_eq(err.attribute, "Host");
    ck_assert(listed);
    td_origins_free(origins);
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct {
    const char *allow_origin, *allow_host;
    const char *message; /* part of it */
} wrong[] = {
    { "*", "", "allow-origin: '*' is not a single origin, and would let pages of any site" },
    { "https://a.example, *", "", "allow-origin: '*' is not a single origin" },
    { "null", "",
      "allow-origin: 'null' is not a single origin, because pages of any site can send it" },
    { "https://a.example/", "", "allow-origin: 'https://a.example/' is not an origin like" },
    { "https://a.example/app", "", "without a path" },
    { "a.example", "", "is not an origin" },
    { "https://*.example", "", "is not an origin" },
    { "https://", "", "is not an origin" },
    { "https://a.example:x", "", "is not an origin" },
    { "https://user@a.example", "", "is not an origin" },
    { "https://a.example,", "", NULL },
    { "https://a.example,,https://b.example", "", "allow-origin: '' is not an origin" },
    { ",https://a.example", "", "allow-origin: '' is not an origin" },
    { "", "a.example:8080", "allow-host: 'a.example:8080' is not a host like" },
    { "", "a.example:", "without a port" },
    { "", "[::1]:80", "without a port" },
    { "", "https://a.example", "is not a host" },
    { "", "*", "allow-host: '*' is not a host" },
    { "", "*.example", "is not a host" },
    { "", "::1", "is not a host" },
    { "", "a.example, b c", "allow-host: 'b c' is not a host" },
};

TD_TEST_EACH(invalid_origins_and_hosts_are_refused_at_start, wrong)
{
    struct td_origins *origins =
        td_origins_new(wrong[_i].allow_origin, wrong[_i].allow_host, message, sizeof message);
    ck_assert_msg((origins == NULL) == (wrong[_i].message != NULL), "%s%s", wrong[_i].allow_origin,
                  wrong[_i].allow_host);
    if (!origins)
        ck_assert_msg(strstr(message, wrong[_i].message) != NULL, "%s", message);
    td_origins_free(origins);
}
