#include "tests/api/peers.h"

#include <simdjson.h>

int peer_reads_json(const char *text, size_t size)
{
    static simdjson::dom::parser parser;
    simdjson::error_code error = parser.parse(text, size, true).error();
    if (error == simdjson::NUMBER_ERROR || error == simdjson::DEPTH_ERROR)
        return -1;
    return error == simdjson::SUCCESS;
}
