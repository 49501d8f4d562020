#include "server/http/request_facts.h"

#include "server/calls/device_call.h"
#include "server/clients/clients.h"

#include <arpa/inet.h>

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

/* An IPv6 address with a suffix, or an IPv4 address mapped to IPv6. */
static void print_address(const uint8_t bytes[16], const char *suffix, char text[TD_ADDRESS_TEXT])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const bool ipv4 = memcmp(bytes, mapped, sizeof mapped) == 0;
    char address[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? bytes + sizeof mapped : bytes, address,
                    sizeof address);
    snprintf(text, TD_ADDRESS_TEXT, "%s%s", address, ipv4 ? "" : suffix);
}

void td_request_peer(const struct sockaddr *peer, char text[TD_ADDRESS_TEXT])
{
    struct td_address address;
    text[0] = '\0';
    if (td_address_of(peer, &address))
        print_address(address.bytes, "", text);
}

void td_request_origin(const struct td_call *call, struct td_request_origin *text)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct td_client_key key;
    *text = (struct td_request_origin){ .peer = "" };
    if (!info || !info->client_addr)
        return;
    td_request_peer(info->client_addr, text->peer);
    if (call->client && td_client_key_of(info->client_addr, &key) &&
        memcmp(key.bytes, call->client->key.bytes, sizeof key.bytes) != 0)
        print_address(call->client->key.bytes, "/64", text->forwarded);
}

void td_request_inputs(const struct td_call *call, char *text, size_t size)
{
    const struct td_request *request = &call->request;
    size_t length = 0;
    char shape[TD_SHAPE_TEXT];
    text[0] = '\0';
    for (int i = 0; request->decoded && i < request->op->n_inputs; i++) {
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; j < operand->count && length < size; j++)
            length +=
                (size_t)snprintf(text + length, size - length, "%s%s%s", length ? " " : "",
                                 request->op->inputs[i].name,
                                 td_shape_text(&operand->tensors[j].shape, shape, sizeof shape));
    }
}

const char *td_request_device(const struct td_call *call)
{
    if (!call->op || !call->request.decoded)
        return NULL;
    return call->device && td_device_call_is_done(call) ? "gpu" : "cpu";
}
