/* oip.h - decodes a request of the Open Inference Protocol in a test. */
#ifndef TD_TESTS_API_OIP_H
#define TD_TESTS_API_OIP_H

#include "tests/api/request.h"

/* Inputs of gather. */
#define PARAMS  "{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]}"
#define INDICES "{\"name\":\"indices\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[0]}"

/* Regions "r" and "s" of 64 bytes each. */
struct test_regions {
    struct td_regions base;
    _Alignas(16) char bytes[2][64];
};
void test_regions_init(struct test_regions *regions);

extern uint64_t decoded_timeout_us; /* timeout of the latest decoded request */

/* Decodes a whole body; json_bytes is the value of the header. */
void decode_oip_at(struct decoded *out, const char *op, const void *body, size_t size,
                   size_t json_bytes, struct td_resolver *resolver, struct td_regions *regions);
/* Decodes JSON followed by binary data. */
void decode_oip(struct decoded *out, const char *op, const char *json, const void *data,
                size_t data_size, struct td_regions *regions);
/* Decodes JSON alone, without the header. */
void decode_oip_text(struct decoded *out, const char *op, const char *json);

#endif
