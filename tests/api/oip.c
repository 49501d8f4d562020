#include "tests/api/oip.h"

#include "api/message/message.h"
#include "api/oip/oip.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

uint64_t decoded_timeout_us;

static td_status find(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err)
{
    struct test_regions *regions = (struct test_regions *)self;
    (void)arena;
    if (length != 1 || (*name != 'r' && *name != 's'))
        return td_error_set(err, TD_NOT_FOUND, "no region is called \"%.*s\"", (int)length, name);
    if (bytes > sizeof regions->bytes[0] || offset > sizeof regions->bytes[0] - bytes)
        return td_error_set(err, TD_INVALID_ARGUMENT, "the range goes beyond its region");
    *out = regions->bytes[*name == 's'] + offset;
    return TD_OK;
}

void test_regions_init(struct test_regions *regions)
{
    memset(regions, 0, sizeof *regions);
    regions->base.find = find;
}

void decode_oip_at(struct decoded *out, const char *op, const void *body, size_t size,
                   size_t json_bytes, struct td_resolver *resolver, struct td_regions *regions)
{
    const struct td_oip_source source = { .json_bytes = json_bytes,
                                          .resolver = resolver,
                                          .regions = regions };
    memset(&out->err, 0, sizeof out->err);
    td_request_init(&out->request, strcmp(op, pair_op.name) == 0   ? &pair_op
                                   : strcmp(op, list_op.name) == 0 ? &list_op
                                                                   : td_op_named(op, strlen(op)));
    char *copy = padded_copy(body, size, '1');
    body_keep(out, copy);
    out->status = td_oip_decode(copy, size, &source, &test_arena, &out->request,
                                &decoded_timeout_us, &out->err);
}

void decode_oip(struct decoded *out, const char *op, const char *json, const void *data,
                size_t data_size, struct td_regions *regions)
{
    size_t json_bytes = strlen(json);
    char *body = malloc(json_bytes + data_size + 1);
    EXPECT(body, "no memory");
    memcpy(body, json, json_bytes);
    memcpy(body + json_bytes, data, data_size);
    decode_oip_at(out, op, body, json_bytes + data_size, json_bytes, NULL, regions);
    free(body);
}

void decode_oip_text(struct decoded *out, const char *op, const char *json)
{
    decode_oip_at(out, op, json, strlen(json), TD_OIP_NO_HEADER, NULL, NULL);
}
