#include "api/codec.h"

#include "api/files/foreign.h"
#include "api/files/safetensors.h"
#include "api/json/encode.h"
#include "api/json/hints.h"
#include "api/media_type.h"
#include "api/oip/oip.h"

#define FORMATS (TD_FORMAT_BIT(JSON) | TD_FORMAT_BIT(SAFETENSORS))

td_status td_codec_request_format(const char *content_type, td_format *out, struct td_error *err)
{
    return td_media_of_body(content_type, FORMATS, out, err);
}

td_status td_codec_reply_format(const char *accept, td_format request_format, td_format *out,
                                struct td_error *err)
{
    return td_media_of_reply(accept, FORMATS, request_format, out, err);
}

td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                          struct td_resolver *resolver, struct td_arena *arena,
                          struct td_request *request, struct td_error *err)
{
    const td_status status = format == TD_FORMAT_SAFETENSORS
                                 ? td_safetensors_decode(body, bytes, resolver, arena, request, err)
                                 : td_json_decode(body, bytes, resolver, arena, request, err);
    request->decoded = status == TD_OK;
    if (status != TD_OK)
        return td_foreign_explain_body(status, format, body, bytes, err);
    if (request->common.store || !request->common.store_ttl_s)
        return status;
    td_error_set(err, TD_MALFORMED_REQUEST, "store.ttl_s requires store, the name of the result");
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, "store.ttl_s");
}

void td_codec_hint(td_format format, const struct td_request *request, struct td_error *err)
{
    if (format == TD_FORMAT_JSON)
        td_json_hint_inputs(request, err);
}

bool td_codec_accepts_json(const char *accept)
{
    td_format format;
    return td_media_of_reply(accept, TD_FORMAT_BIT(JSON), TD_FORMAT_JSON, &format, TD_IGNORED) ==
           TD_OK;
}

td_status td_codec_can_encode(td_format format, const struct td_request *request,
                              struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_can_encode(request, err);
    case TD_FORMAT_OIP:
        return td_oip_can_encode(request, err);
    case TD_FORMAT_JSON:
    case TD_FORMAT_NPY:
        break;
    }
    return TD_OK;
}

bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encoded_bound(request, bytes);
    case TD_FORMAT_OIP:
        return td_oip_encoded_bound(request, bytes);
    case TD_FORMAT_JSON:
    case TD_FORMAT_NPY:
        break;
    }
    return td_json_encoded_bound(request, bytes);
}

td_status td_codec_encode(td_format format, const struct td_request *request,
                          struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encode(request, arena, reply, err);
    case TD_FORMAT_OIP:
        return td_oip_encode(request, arena, reply, err);
    case TD_FORMAT_JSON:
    case TD_FORMAT_NPY:
        break;
    }
    return td_json_encode(request, arena, reply, err);
}
