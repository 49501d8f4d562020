/* config.h - what the daemon can be told, in one table of options.
 *
 * An option may come from the command line, the environment or a JSON file, in that order of
 * precedence; its spelling derives from its name: --max-body, TENSORD_MAX_BODY, {"max-body": ...}.
 * A switch is on when it stands alone, --compress, and may have a value, as everywhere else: on, off,
 * true, false, yes, no, 1 or 0. A list has its values with commas, in the JSON file also as an array;
 * on the command line the option may be repeated. --help is printed from the same table.
 *
 * Ownership  struct td_config owns its texts; td_config_free.
 * Errors     One sentence that names where the value stood, what it was and what is expected. */
#ifndef TD_SERVER_CONFIG_CONFIG_H
#define TD_SERVER_CONFIG_CONFIG_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG };
enum td_log_format { TD_LOG_TEXT, TD_LOG_JSON };

/* X(member, name, kind, default, least, most, value name, help) */
#define TD_OPTIONS(X)                                                                              \
    X(listen, "listen", ADDRESS, "127.0.0.1:8080", 0, 0, "HOST:PORT",                              \
      "address to serve on; [::1]:8080 for IPv6, port 0 for any free one")                         \
    X(allow_host, "allow-host", LIST, "", 0, 0, "HOST,...",                                        \
      "what Host may be beside localhost on a loopback address; a proxy on this machine that "     \
      "forwards the public name needs it")                                                         \
    X(allow_origin, "allow-origin", LIST, "", 0, 0, "ORIGIN,...",                                  \
      "web pages that may use this server, like https://example.com; others are answered 403")     \
    X(data_dir, "data-dir", TEXT, "", 0, 0, "DIR",                                                 \
      "folder of resident tensors: .npy and .safetensors files are mapped; persist=1 writes "      \
      "there")                                                                                     \
    X(io_threads, "io-threads", COUNT, "2", 1, 256, "N",                                           \
      "threads that speak HTTP; with one, an upload starves under small traffic")                  \
    X(workers, "workers", COUNT, "0", 0, 1024, "N", "threads that compute; 0 takes one per CPU")   \
    X(queue_limit, "queue-limit", COUNT, "1024", 1, 1000000, "N",                                  \
      "requests waiting for a worker, or for a device until it answers; one more is answered 429") \
    X(memory_limit, "memory-limit", BYTES, "0", 1 << 20, INT64_MAX, "BYTES",                       \
      "for bodies, outputs and workspaces of all requests together; 0 takes half of the RAM")      \
    X(tensor_quota, "tensor-quota", BYTES, "0", 0, INT64_MAX, "BYTES",                             \
      "of the memory limit, for resident tensors that are not mapped files; 0 takes half of it")   \
    X(pool_limit, "pool-limit", BYTES, "256M", 0, INT64_MAX, "BYTES",                              \
      "buffers kept warm between requests, given back after seconds of idleness")                  \
    X(max_body, "max-body", BYTES, "256M", 1024, INT64_MAX, "BYTES",                               \
      "largest request body, after decompression; a larger one is answered 413")                   \
    X(max_output, "max-output", BYTES, "1G", 1024, INT64_MAX, "BYTES",                             \
      "largest result of one request; a larger one is answered 422")                               \
    X(max_flops, "max-flops", COUNT, "10000000000000", 0, INT64_MAX, "N",                          \
      "operations of one einsum; one that needs more is answered 422; 0 means no limit")           \
    X(default_timeout_ms, "default-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                 \
      "deadline of a request that brings none; 0 means no deadline")                               \
    X(idle_timeout_ms, "idle-timeout-ms", COUNT, "60000", 0, 86400000, "MS",                       \
      "silence after which a connection is closed, in whole seconds; 0 means never")               \
    X(drain_timeout_ms, "drain-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                     \
      "how long accepted requests may take after SIGTERM or SIGINT")                               \
    X(connection_limit, "connection-limit", COUNT, "10000", 1, 1000000, "N",                       \
      "open connections; further ones wait in the kernel's backlog")                               \
    X(connection_memory, "connection-memory", BYTES, "32K", 4096, 16 << 20, "BYTES",               \
      "holds a request's headers; larger makes uploads faster and small requests slower")          \
    X(inline_limit_us, "inline-limit-us", COUNT, "20", 0, 1000000, "US",                           \
      "requests estimated below this run on the I/O thread; 0 queues every op")                    \
    X(system_shared_memory, "system-shared-memory", SWITCH, "off", 0, 0, "",                       \
      "clients of /v2 on this machine may name POSIX shared memory as inputs and outputs")         \
    X(compress, "compress", SWITCH, "off", 0, 0, "",                                               \
      "compress answers of /v1 as well where Accept-Encoding asks for it, at the cost of CPU")     \
    X(gpu, "gpu", DEVICE, "auto", 0, 0, "DEVICE",                                                  \
      "auto (cuda, if it is there), off, cuda, reference (on the processor) or a plugin's path, "  \
      "the last three with :OPTIONS of theirs")                                                    \
    X(gpu_memory, "gpu-memory", BYTES, "0", 0, INT64_MAX, "BYTES",                                 \
      "of the device, for tables and work; 0 takes most of it")                                    \
    X(gpu_staging, "gpu-staging", BYTES, "256M", 1 << 20, INT64_MAX, "BYTES",                      \
      "of the memory limit at most, pinned for what goes to the device and comes back")            \
    X(gpu_tf32, "gpu-tf32", SWITCH, "off", 0, 0, "",                                               \
      "float32 matrix products of the device may round their inputs to 10 bits")                   \
    X(gpu_hang_ms, "gpu-hang-ms", COUNT, "10000", 1, 86400000, "MS",                               \
      "a batch that takes longer, beside moving its bytes, means that the device is lost")         \
    X(gpu_retry_ms, "gpu-retry-ms", COUNT, "5000", 1, 86400000, "MS",                              \
      "how often a device that is lost, or could not be opened, is tried again")                   \
    X(batch_limit, "batch-limit", COUNT, "256", 1, 65536, "N",                                     \
      "requests that may become one launch of the device")                                         \
    X(batch_wait_us, "batch-wait-us", COUNT, "0", 0, 1000000, "US",                                \
      "how long an idle device waits, after the first, for more that could become one launch")     \
    X(isa, "isa", ISA, "auto", 0, 0, "ISA",                                                        \
      "instruction set of einsum's kernels: auto (the best there is), generic, avx2, avx512, "     \
      "avx512_bf16")                                                                               \
    X(log_level, "log-level", LEVEL, "info", 0, 0, "LEVEL",                                        \
      "error, warn, info or debug (debug has a line for every request)")                           \
    X(log_format, "log-format", FORMAT, "text", 0, 0, "FORMAT", "text or json, one line an event")

/* Members by kind. */
#define TD_CONFIG_TYPE_ADDRESS char *
#define TD_CONFIG_TYPE_TEXT    char *
#define TD_CONFIG_TYPE_LIST    char *
#define TD_CONFIG_TYPE_DEVICE  char *
#define TD_CONFIG_TYPE_COUNT   int64_t
#define TD_CONFIG_TYPE_BYTES   int64_t
#define TD_CONFIG_TYPE_SWITCH  bool
#define TD_CONFIG_TYPE_ISA     td_isa
#define TD_CONFIG_TYPE_LEVEL   enum td_log_level
#define TD_CONFIG_TYPE_FORMAT  enum td_log_format

struct td_config {
#define TD_CONFIG_MEMBER(member, name, kind, ...) TD_CONFIG_TYPE_##kind member;
    TD_OPTIONS(TD_CONFIG_MEMBER)
#undef TD_CONFIG_MEMBER
};

enum td_config_action {
    TD_CONFIG_RUN,
    TD_CONFIG_CHECK,   /* --check-config: all is well */
    TD_CONFIG_HELP,    /* --help */
    TD_CONFIG_VERSION, /* --version */
    TD_CONFIG_WRONG    /* message says why */
};

#define TD_CONFIG_MESSAGE 768

/* Reads everything; environ is the process's environment. Zeros ("one per CPU", "half of the RAM")
 * are resolved to numbers. After TD_CONFIG_WRONG config holds nothing to free. */
enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE]);
/* What only the system can tell: that the data folder is there, that the address means a host here,
 * and that the processor has the instruction set. */
bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

void td_config_free(struct td_config *config);

void td_config_help(FILE *out);

/* Splits "HOST:PORT" or "[V6]:PORT". False when it is neither. host has room for 256 bytes. */
bool td_config_split_address(const char *address, char host[256], uint16_t *port);

#endif
