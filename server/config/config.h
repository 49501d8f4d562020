/* config.h - the daemon's options, in one table.
 *
 * An option may come from the command line, the environment or a JSON file, in that order of
 * precedence; its spelling derives from its name: --max-body, TENSORD_MAX_BODY, {"max-body": ...}.
 * A switch without a value, --compress, is on; its values are on, off, true, false, yes, no, 1 and
 * 0. A list has comma-separated values, in the JSON file also an array; on the command line the
 * option may be repeated, and no other may. --help is printed from the same table (load.h).
 *
 * Ownership  struct td_config owns its texts; td_config_free.
 * Errors     One sentence with the source of the value, the value and what is expected. */
#ifndef TD_SERVER_CONFIG_CONFIG_H
#define TD_SERVER_CONFIG_CONFIG_H

#include "kernels/isa.h"

#include <stdbool.h>
#include <stdint.h>

enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG };
enum td_verify { TD_VERIFY_START, TD_VERIFY_BACKGROUND, TD_VERIFY_OFF };
enum td_console { TD_CONSOLE_OFF, TD_CONSOLE_READ_ONLY, TD_CONSOLE_ON };
enum td_log_format { TD_LOG_TEXT, TD_LOG_JSON };

/* X(member, name, kind, default, least, most, value name, help) */
#define TD_OPTIONS(X)                                                                              \
    X(listen, "listen", ADDRESSES, "127.0.0.1:8080", 0, 0, "HOST:PORT,...",                        \
      "addresses to listen on; [::1]:8080 for IPv6, port 0 for any free one")                      \
    X(metrics_listen, "metrics-listen", ADDRESS, "", 0, 0, "HOST:PORT",                            \
      "another address to listen on, for /metrics, /healthz and /readyz alone")                    \
    X(allow_host, "allow-host", LIST, "", 0, 0, "HOST,...",                                        \
      "Host headers accepted beside localhost on a loopback address; needed by a local proxy "     \
      "that forwards the public name")                                                             \
    X(allow_origin, "allow-origin", LIST, "", 0, 0, "ORIGIN,...",                                  \
      "web origins that may use this server, such as https://example.com; others get 403")         \
    X(token_file, "token-file", TEXT, "", 0, 0, "FILE",                                            \
      "lines ROLE TOKEN [name=NAME] [PREFIX...]: requests need a token of the role read, write "   \
      "or admin, for "                                                                             \
      "tensors with one of the prefixes; read again on SIGHUP")                                    \
    X(tls_certificate, "tls-certificate", TEXT, "", 0, 0, "FILE",                                  \
      "PEM, with the certificates between it and the root: serve HTTPS instead of HTTP; read "     \
      "again on SIGHUP, as are the next two")                                                      \
    X(tls_key, "tls-key", TEXT, "", 0, 0, "FILE",                                                  \
      "PEM, without a password: the key of --tls-certificate")                                     \
    X(tls_client_ca, "tls-client-ca", TEXT, "", 0, 0, "FILE",                                      \
      "PEM: requests need a client certificate that one of these certificates has signed, except " \
      "those for the server's health")                                                             \
    X(read_only, "read-only", SWITCH, "off", 0, 0, "",                                             \
      "refuse every change with 403, and leave the data folder unlocked")                          \
    X(console, "console", CONSOLE, "on", 0, 0, "MODE",                                             \
      "web console at /: on, read-only (it offers no changes; other clients may make them), off")  \
    X(data_dir, "data-dir", TEXT, "", 0, 0, "DIR",                                                 \
      "folder of resident tensors: .npy and .safetensors files are mapped; persist=1 writes "      \
      "there")                                                                                     \
    X(disk_quota, "disk-quota", BYTES, "0", 0, INT64_MAX, "BYTES",                                 \
      "of the files that persist=1 writes into the data folder; 0 means no limit")                 \
    X(keep_versions, "keep-versions", COUNT, "0", 0, 65536, "N",                                   \
      "of each table the N newest versions NAME@VERSION stay, in natural order, and those that "   \
      "aliases name; older ones are removed; 0 means that all stay")                               \
    X(verify, "verify", VERIFY, "background", 0, 0, "WHEN",                                        \
      "when the checksums of the files that persist=1 wrote are compared: start (before a tensor " \
      "is served), background (while it is served), off")                                          \
    X(io_threads, "io-threads", COUNT, "0", 0, 256, "N",                                           \
      "I/O threads for HTTP, beside one for the first connections of each client; 0 means 2, or "  \
      "1 on one or two CPUs")                                                                      \
    X(workers, "workers", COUNT, "0", 0, 1024, "N",                                                \
      "compute threads; 0 means one per CPU that affinity and control groups leave")               \
    X(queue_limit, "queue-limit", COUNT, "1024", 1, 1000000, "N",                                  \
      "requests waiting for a worker, or for a device until it answers; further ones get 429")     \
    X(client_requests, "client-requests", COUNT, "0", 0, 1000000, "N",                             \
      "of one client, queued or running at once; further ones get 429; 0 means no limit of its "   \
      "own")                                                                                       \
    X(memory_limit, "memory-limit", BYTES, "0", 1 << 20, INT64_MAX, "BYTES",                       \
      "for bodies, outputs and workspaces of all requests; 0 means half of the RAM, "              \
      "or of what control groups leave of it")                                                     \
    X(client_memory, "client-memory", BYTES, "0", 0, INT64_MAX, "BYTES",                           \
      "for the requests of one client in progress; further ones get 429; 0 means half of the "     \
      "memory limit")                                                                              \
    X(tensor_quota, "tensor-quota", BYTES, "0", 0, INT64_MAX, "BYTES",                             \
      "of the memory limit, for resident tensors that are not mapped; 0 means half of it")         \
    X(pool_limit, "pool-limit", BYTES, "256M", 0, INT64_MAX, "BYTES",                              \
      "buffers kept warm between requests, released after seconds of idleness")                    \
    X(max_body, "max-body", BYTES, "256M", 1024, INT64_MAX, "BYTES",                               \
      "largest request body, after decompression; a larger one is answered 413")                   \
    X(max_expansion, "max-expansion", COUNT, "100", 0, 1000000, "N",                               \
      "largest ratio of a body's size to its compressed size, beyond the first 1M; a larger one "  \
      "is answered 413; 0 means any")                                                              \
    X(max_output, "max-output", BYTES, "1G", 1024, INT64_MAX, "BYTES",                             \
      "largest result of one request; a larger one is answered 422")                               \
    X(max_flops, "max-flops", COUNT, "10000000000000", 0, INT64_MAX, "N",                          \
      "operations of one einsum; one that needs more is answered 422; 0 means no limit")           \
    X(default_timeout_ms, "default-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                 \
      "deadline of a request that sets none; 0 means no deadline")                                 \
    X(idle_timeout_ms, "idle-timeout-ms", COUNT, "60000", 0, 86400000, "MS",                       \
      "a connection whose client sends and reads nothing for so long is closed within two more "   \
      "seconds; 0 means never")                                                                    \
    X(connection_limit, "connection-limit", COUNT, "10000", 1, 1000000, "N",                       \
      "open connections; further ones may only ask for the server's health, and get 503 "          \
      "otherwise")                                                                                 \
    X(client_connections, "client-connections", COUNT, "0", 1, 1000000, "N",                       \
      "open connections of one client, an address; 0 means half of --connection-limit")            \
    X(trusted_proxy, "trusted-proxy", LIST, "", 0, 0, "ADDRESS,...",                               \
      "addresses or prefixes of proxies whose X-Forwarded-For says which client a request is of")  \
    X(header_timeout_ms, "header-timeout-ms", COUNT, "10000", 1, 86400000, "MS",                   \
      "from the first byte of a request to the end of its headers; also how long a body or reply " \
      "may be slower than --min-rate")                                                             \
    X(min_rate, "min-rate", BYTES, "1K", 0, INT64_MAX, "BYTES",                                    \
      "per second: a client that sends a body or reads a reply more slowly, on average, is "       \
      "disconnected; 0 means never")                                                               \
    X(connection_memory, "connection-memory", BYTES, "32K", 4096, 16 << 20, "BYTES",               \
      "buffer for a request's headers; larger makes uploads faster and small requests slower")     \
    X(drain_delay_ms, "drain-delay-ms", COUNT, "0", 0, 86400000, "MS",                             \
      "how long after SIGTERM or SIGINT connections are still accepted, while readyz is 503; "     \
      "longer than the interval of a load balancer's checks")                                      \
    X(drain_timeout_ms, "drain-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                     \
      "how long requests may take after that")                                                     \
    X(inline_limit_us, "inline-limit-us", COUNT, "20", 0, 1000000, "US",                           \
      "requests estimated below this run on the I/O thread; 0 queues every op")                    \
    X(isa, "isa", ISA, "auto", 0, 0, "ISA",                                                        \
      "instruction set of the ops: auto (the best supported), generic, avx2, avx512, "             \
      "avx512_bf16")                                                                               \
    X(system_shared_memory, "system-shared-memory", SWITCH, "off", 0, 0, "",                       \
      "clients of /v2 on this machine may name POSIX shared memory as inputs and outputs")         \
    X(compress, "compress", SWITCH, "off", 0, 0, "",                                               \
      "compress replies of /v1 as well if Accept-Encoding allows it, at the cost of CPU")          \
    X(gpu, "gpu", DEVICE, "auto", 0, 0, "DEVICE",                                                  \
      "auto (cuda if available), off, cuda, reference (on the CPU) or a plugin's path, the last "  \
      "three with their own :OPTIONS")                                                             \
    X(gpu_memory, "gpu-memory", BYTES, "0", 0, INT64_MAX, "BYTES",                                 \
      "of the device, for tables and workspaces; 0 means most of it")                              \
    X(gpu_staging, "gpu-staging", BYTES, "256M", 1 << 20, INT64_MAX, "BYTES",                      \
      "at most, of the memory limit: pinned memory for transfers to and from the device")          \
    X(gpu_tf32, "gpu-tf32", SWITCH, "off", 0, 0, "",                                               \
      "the device may round inputs of float32 matrix products to 10 bits")                         \
    X(gpu_hang_ms, "gpu-hang-ms", COUNT, "10000", 1, 86400000, "MS",                               \
      "a batch that takes longer, without its transfers, means that the device is lost")           \
    X(gpu_retry_ms, "gpu-retry-ms", COUNT, "5000", 1, 86400000, "MS",                              \
      "interval between attempts to open a device that is lost or could not be opened")            \
    X(batch_limit, "batch-limit", COUNT, "256", 1, 65536, "N",                                     \
      "requests merged into one launch of the device at most")                                     \
    X(batch_wait_us, "batch-wait-us", COUNT, "0", 0, 1000000, "US",                                \
      "how long an idle device waits after the first request for more to merge with it")           \
    X(log_level, "log-level", LEVEL, "info", 0, 0, "LEVEL",                                        \
      "error, warn, info or debug (debug logs every request)")                                     \
    X(log_format, "log-format", FORMAT, "text", 0, 0, "FORMAT",                                    \
      "text or json, one line per event")                                                          \
    X(access_log, "access-log", RATIO, "off", 0, 0, "FRACTION",                                    \
      "on, off, or which fraction of the requests, such as 0.01, are logged at any level")         \
    X(slow_ms, "slow-ms", COUNT, "0", 0, 86400000, "MS",                                           \
      "requests whose reply takes longer, from the end of their body, are logged at warn; 0 "      \
      "means "                                                                                     \
      "none")                                                                                      \
    X(otlp_endpoint, "otlp-endpoint", TEXT, "", 0, 0, "URL",                                       \
      "collector of OpenTelemetry, such as http://localhost:4318, that spans of sampled requests " \
      "are sent to")                                                                               \
    X(otlp_header, "otlp-header", LIST, "", 0, 0, "NAME=VALUE,...",                                \
      "headers of the requests to the collector, such as an API key")                              \
    X(trace_sample, "trace-sample", RATIO, "0.01", 0, 0, "FRACTION",                               \
      "on, off, or which fraction of the requests without traceparent are traced; of others its "  \
      "flag decides")

/* X(member of the first option, heading): the sections of --help and of the man page. */
#define TD_OPTION_SECTIONS(X)                                                                      \
    X(listen, "Addresses and web pages")                                                           \
    X(token_file, "Who may do what")                                                               \
    X(data_dir, "Tables")                                                                          \
    X(io_threads, "Threads and the queue")                                                         \
    X(memory_limit, "Memory")                                                                      \
    X(max_body, "Limits of a request")                                                             \
    X(idle_timeout_ms, "Connections")                                                              \
    X(drain_delay_ms, "Stopping")                                                                  \
    X(inline_limit_us, "Computing")                                                                \
    X(gpu, "Device")                                                                               \
    X(log_level, "Log and traces")

/* Members by kind. */
#define TD_CONFIG_TYPE_ADDRESS   char *
#define TD_CONFIG_TYPE_ADDRESSES char *
#define TD_CONFIG_TYPE_TEXT      char *
#define TD_CONFIG_TYPE_LIST      char *
#define TD_CONFIG_TYPE_DEVICE    char *
#define TD_CONFIG_TYPE_COUNT     int64_t
#define TD_CONFIG_TYPE_BYTES     int64_t
#define TD_CONFIG_TYPE_SWITCH    bool
#define TD_CONFIG_TYPE_RATIO     double
#define TD_CONFIG_TYPE_ISA       td_isa
#define TD_CONFIG_TYPE_LEVEL     enum td_log_level
#define TD_CONFIG_TYPE_FORMAT    enum td_log_format
#define TD_CONFIG_TYPE_VERIFY    enum td_verify
#define TD_CONFIG_TYPE_CONSOLE   enum td_console

struct td_config {
#define TD_CONFIG_MEMBER(member, name, kind, ...) TD_CONFIG_TYPE_##kind member;
    TD_OPTIONS(TD_CONFIG_MEMBER)
#undef TD_CONFIG_MEMBER
};

/* What the command line asks for. */
enum td_config_action {
    TD_CONFIG_RUN,
    TD_CONFIG_CHECK,        /* --check-config: the configuration is valid */
    TD_CONFIG_CHECK_HEALTH, /* --check-health: the configuration is valid */
    TD_CONFIG_PRINT,        /* --print-config: the configuration is valid */
    TD_CONFIG_HELP,         /* --help */
    TD_CONFIG_VERSION,      /* --version */
    TD_CONFIG_WRONG         /* message says why */
};

/* X(action, name, letter or "", value name, help): arguments that are no options, so that neither
 * the environment nor a file can have them. */
#define TD_ARGUMENTS(X)                                                                            \
    X(RUN, "config", "", "FILE", "JSON file with options; also TENSORD_CONFIG")                    \
    X(CHECK, "check-config", "", "",                                                               \
      "check the configuration, the addresses and the data folder, report, and exit; status 0: "   \
      "it would start, 1: it would not, 2: wrong options")                                         \
    X(CHECK_HEALTH, "check-health", "", "",                                                        \
      "ask the daemon that has this configuration whether it is alive, and exit; status 0: it "    \
      "is, 1: it is not, 2: wrong options")                                                        \
    X(PRINT, "print-config", "", "",                                                               \
      "print the value of each option and where it is from, without secrets, and exit; status 2: " \
      "wrong options")                                                                             \
    X(VERSION, "version", "v", "", "print the version and exit")                                   \
    X(HELP, "help", "h", "", "print this help and exit")

/* Bytes of an error message about the configuration. */
#define TD_CONFIG_MESSAGE 768

void td_config_free(struct td_config *config);

/* Whether a request needs a token or a certificate of its client. */
bool td_config_identifies_clients(const struct td_config *config);

enum {
    TD_MOST_ADDRESSES = 16, /* of --listen */
    TD_ADDRESS_SIZE = 272   /* of an address as text, with its '\0' */
};

/* Splits "HOST:PORT" or "[V6]:PORT". False for anything else. host has room for 256 bytes. */
bool td_config_split_address(const char *address, char host[256], uint16_t *port);

/* The next address of --listen, which has one at least. *rest is the option's value at first. False
 * after the last one. */
bool td_config_next_address(const char **rest, char address[TD_ADDRESS_SIZE]);

#endif
