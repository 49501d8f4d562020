#include "server/store/etag.h"

#include "kernels/name.h"

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

td_status td_etag_listed(const char *header, const char *list, const char *etag, bool weak,
                         bool *listed, struct td_error *err)
{
    const char *at = skip_blanks(list);
    bool any = false;
    *listed = false;
    if (at[0] == '*' && *skip_blanks(at + 1) == '\0') {
        *listed = etag != NULL;
        return TD_OK;
    }
    while (*at) {
        if (*at == ',') { /* a list may have empty elements */
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
        if (etag && (weak || !is_weak) && td_name_is(etag, at, length))
            *listed = true;
        any = true;
        at = next;
    }
    return any ? TD_OK : malformed(header, err);
}

static td_status refuse(const char *name, const char *header, const char *etag,
                        struct td_error *err)
{
    if (etag)
        td_error_set(err, TD_PRECONDITION_FAILED,
                     "%s does not match the current version of '%s', %s", header, name, etag);
    else
        td_error_set(err, TD_PRECONDITION_FAILED,
                     "%s requires a version of '%s', which does not exist", header, name);
    if (err && etag)
        snprintf(err->etag, sizeof err->etag, "%s", etag);
    return td_error_at_attribute(err, TD_PRECONDITION_FAILED, header);
}

td_status td_condition_check(const struct td_condition *condition, const char *name,
                             const char *etag, struct td_error *err)
{
    bool listed;
    if (condition->if_match) {
        const td_status status =
            td_etag_listed("If-Match", condition->if_match, etag, false, &listed, err);
        if (status != TD_OK || !listed)
            return status != TD_OK ? status : refuse(name, "If-Match", etag, err);
    }
    if (condition->if_none_match) {
        const td_status status =
            td_etag_listed("If-None-Match", condition->if_none_match, etag, true, &listed, err);
        if (status != TD_OK || listed)
            return status != TD_OK ? status : refuse(name, "If-None-Match", etag, err);
    }
    return TD_OK;
}
