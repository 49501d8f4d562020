#include "server/store/precondition.h"

#include "kernels/name.h"
#include "server/store/etag.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static td_status malformed(const char *header, struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s is neither * nor a list of entity tags in quotes, such as \"abc\"", header);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, header);
}

/* True if the bytes are the version's tag or, with `any_format`, the version's tag in any
 * format. */
static bool is_tag(const char *etag, bool any_format, const char *at, size_t length)
{
    bool found = td_name_is(etag, at, length);
    for (int i = 0; i < TD_ETAG_FORMATS && any_format && !found; i++) {
        char text[TD_ETAG_SIZE];
        td_etag_of_format(etag, (td_format)i, text);
        found = td_name_is(text, at, length);
    }
    return found;
}

/* Like td_etag_listed. For `any_format`, see is_tag. */
static td_status find_tag(const char *header, const char *list, const char *etag, bool any_format,
                          bool weak, bool *listed, struct td_error *err)
{
    const char *at = skip_blanks(list);
    bool any = false;
    *listed = false;
    if (at[0] == '*' && *skip_blanks(at + 1) == '\0') {
        *listed = etag != NULL;
        return TD_OK;
    }
    while (*at) {
        if (*at == ',') { /* a list can have empty elements */
            at = skip_blanks(at + 1);
            continue;
        }
        const bool is_weak = strncmp(at, "W/", 2) == 0;
        at += is_weak ? 2 : 0;
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        const char *next = end ? skip_blanks(end + 1) : NULL;
        if (!next || (*next != ',' && *next != '\0'))
            return malformed(header, err);
        const size_t length = (size_t)(end + 1 - at);
        if (etag && (weak || !is_weak) && is_tag(etag, any_format, at, length))
            *listed = true;
        any = true;
        at = next;
    }
    return any ? TD_OK : malformed(header, err);
}

td_status td_etag_listed(const char *header, const char *list, const char *etag, bool weak,
                         bool *listed, struct td_error *err)
{
    return find_tag(header, list, etag, false, weak, listed, err);
}

static td_status refuse(const char *name, const char *header, const char *list, const char *etag,
                        struct td_error *err)
{
    if (etag && strcmp(header, "If-None-Match") == 0)
        td_error_set(err, TD_PRECONDITION_FAILED,
                     strchr(list, '*')
                         ? "%s exists, but If-None-Match: * requires that it does not; send "
                           "If-Match with its ETag to replace it if it has not changed"
                         : "%s still has an ETag that If-None-Match lists",
                     TD_NAMED(name));
    else if (etag)
        td_error_set(err, TD_PRECONDITION_FAILED, "%s does not match the current version of %s%s",
                     header, TD_NAMED(name),
                     strstr(list, "W/") ? "; a weak ETag, W/\"...\", never matches" : "");
    else
        td_error_set(err, TD_PRECONDITION_FAILED,
                     "%s requires a version of %s, which does not exist", header, TD_NAMED(name));
    if (etag)
        snprintf(err->etag, sizeof err->etag, "%s", etag);
    td_error_etag_of(err, etag ? name : "");
    return td_error_at_attribute(err, TD_PRECONDITION_FAILED, header);
}

td_status td_condition_check(const struct td_condition *condition, const char *name,
                             const char *etag, struct td_error *err)
{
    bool listed;
    if (condition->if_match) {
        const td_status status =
            find_tag("If-Match", condition->if_match, etag, true, false, &listed, err);
        if (status != TD_OK || !listed)
            return status != TD_OK ? status
                                   : refuse(name, "If-Match", condition->if_match, etag, err);
    }
    if (condition->if_none_match) {
        const td_status status =
            find_tag("If-None-Match", condition->if_none_match, etag, true, true, &listed, err);
        if (status != TD_OK || listed)
            return status != TD_OK
                       ? status
                       : refuse(name, "If-None-Match", condition->if_none_match, etag, err);
    }
    return TD_OK;
}
