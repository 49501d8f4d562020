/* config.h - the daemon's options, in one table.
 *
 * Each option can be set on the command line (--max-body), in the environment (TENSORD_MAX_BODY) or
 * in a JSON file ({"max-body": ...}), in that order of precedence. A switch accepts on, off, true,
 * false, yes, no, 1 and 0; a switch without a value, such as --compress, is on. A list has
 * comma-separated values, or is an array in the JSON file. Only lists can be repeated on the
 * command line. --help is printed from the same table (load.h).
 *
 * Ownership  struct td_config owns its strings; td_config_free frees them.
 * Errors     Each message names the source of the value, the value, and the values that are
 *            expected. */
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
      "addresses to listen on; IPv6 addresses are in brackets ([::1]:8080); port 0 selects a "     \
      "free port; unix:/PATH is a Unix socket")                                                    \
    X(socket_mode, "socket-mode", MODE, "0660", 0, 0777, "MODE",                                   \
      "permissions of the Unix sockets that --listen names, as an octal number; a process needs "  \
      "write permission to connect")                                                               \
    X(metrics_listen, "metrics-listen", ADDRESS, "", 0, 0, "HOST:PORT",                            \
      "additional address that serves only /metrics, /healthz and /readyz")                        \
    X(allow_host, "allow-host", LIST, "", 0, 0, "HOST,...",                                        \
      "Host headers to accept on loopback addresses besides localhost; needed behind a local "     \
      "proxy that forwards the public name")                                                       \
    X(allow_origin, "allow-origin", LIST, "", 0, 0, "ORIGIN,...",                                  \
      "web origins that can use this server, such as https://example.com; requests from other "    \
      "origins get 403")                                                                           \
    X(token_file, "token-file", TEXT, "", 0, 0, "FILE",                                            \
      "file with lines ROLE TOKEN [name=NAME] [PREFIX...]; requests need a token with the role "   \
      "read, write or admin, for tensors with one of the prefixes; read again on SIGHUP")          \
    X(tls_certificate, "tls-certificate", TEXT, "", 0, 0, "FILE",                                  \
      "PEM file with the server certificate, followed by its intermediate certificates; "          \
      "enables HTTPS instead of HTTP; read again on SIGHUP, together with the key and the "        \
      "client CA")                                                                                 \
    X(tls_key, "tls-key", TEXT, "", 0, 0, "FILE",                                                  \
      "PEM file with the unencrypted private key of the certificate")                              \
    X(tls_client_ca, "tls-client-ca", TEXT, "", 0, 0, "FILE",                                      \
      "PEM file with CA certificates; requests need a client certificate signed by one of "        \
      "them, except requests for the server's health")                                             \
    X(read_only, "read-only", SWITCH, "off", 0, 0, "",                                             \
      "refuse every change with 403, and do not lock the data folder")                             \
    X(console, "console", CONSOLE, "on", 0, 0, "MODE",                                             \
      "web console at /: on, read-only (the console offers no changes, but other clients can "     \
      "make them), off")                                                                           \
    X(data_dir, "data-dir", TEXT, "", 0, 0, "DIR",                                                 \
      "folder of resident tensors; .npy and .safetensors files in it are mapped into memory; "     \
      "persist=1 writes files to it")                                                              \
    X(disk_quota, "disk-quota", BYTES, "0", 0, INT64_MAX, "BYTES",                                 \
      "maximum total size of the files that persist=1 writes to the data folder; 0 means no "      \
      "limit")                                                                                     \
    X(keep_versions, "keep-versions", COUNT, "0", 0, 65536, "N",                                   \
      "number of versions NAME@VERSION to keep of each table: the N newest, in natural order, "    \
      "and all versions that aliases name; older versions are removed; 0 keeps all versions")      \
    X(verify, "verify", VERIFY, "background", 0, 0, "WHEN",                                        \
      "when to verify the checksums of the files that persist=1 wrote: start (before a tensor "    \
      "is served), background (while it is served), off")                                          \
    X(io_threads, "io-threads", COUNT, "0", 0, 256, "N",                                           \
      "I/O threads for HTTP, in addition to the thread for the first connections of each "         \
      "client; 0 means 2, or 1 if there are at most two CPUs")                                     \
    X(workers, "workers", COUNT, "0", 0, 1024, "N",                                                \
      "compute threads; 0 means one for each CPU that affinity and control groups allow")          \
    X(queue_limit, "queue-limit", COUNT, "1024", 1, 1000000, "N",                                  \
      "maximum number of requests waiting for a worker or a device; more get 429")                 \
    X(client_requests, "client-requests", COUNT, "0", 0, 1000000, "N",                             \
      "maximum number of requests that one client can have queued or running; more get 429; "      \
      "0 means no limit per client")                                                               \
    X(memory_limit, "memory-limit", BYTES, "0", 1 << 20, INT64_MAX, "BYTES",                       \
      "memory for requests, connections and resident tensors that are not mapped; 0 means half "   \
      "of the RAM, or half of the control groups' limit if that is lower")                         \
    X(client_memory, "client-memory", BYTES, "0", 0, INT64_MAX, "BYTES",                           \
      "memory for the requests of one client that are in progress; requests that need more get "   \
      "429; 0 means half of the memory limit")                                                     \
    X(tensor_quota, "tensor-quota", BYTES, "0", 0, INT64_MAX, "BYTES",                             \
      "part of the memory limit for resident tensors that are not mapped; 0 means half of the "    \
      "limit")                                                                                     \
    X(pool_limit, "pool-limit", BYTES, "256M", 0, INT64_MAX, "BYTES",                              \
      "maximum size of the buffers kept warm between requests; idle buffers are released after "   \
      "a few seconds")                                                                             \
    X(max_body, "max-body", BYTES, "256M", 1024, INT64_MAX, "BYTES",                               \
      "maximum size of a request body after decompression; larger bodies get 413")                 \
    X(max_expansion, "max-expansion", COUNT, "100", 0, 1000000, "N",                               \
      "maximum ratio of a body's size to its compressed size, not applied to the first 1M; a "     \
      "larger ratio gets 413; 0 means no limit")                                                   \
    X(max_output, "max-output", BYTES, "1G", 1024, INT64_MAX, "BYTES",                             \
      "maximum size of the result of one request; larger results get 422")                         \
    X(max_flops, "max-flops", COUNT, "10000000000000", 0, INT64_MAX, "N",                          \
      "maximum number of operations of one request; more get 422; 0 means no limit")               \
    X(default_timeout_ms, "default-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                 \
      "deadline of requests that do not set one; 0 means no deadline")                             \
    X(idle_timeout_ms, "idle-timeout-ms", COUNT, "60000", 0, 86400000, "MS",                       \
      "how long a client can be idle, neither sending nor reading; its connection is then closed " \
      "within two more seconds; 0 means no limit")                                                 \
    X(connection_limit, "connection-limit", COUNT, "10000", 1, 1000000, "N",                       \
      "maximum number of open connections; clients on additional connections can only ask for "    \
      "the server's health and get 503 for other requests")                                        \
    X(client_connections, "client-connections", COUNT, "0", 1, 1000000, "N",                       \
      "maximum number of open connections of one client, that is, of one address, or of one "      \
      "user on Unix sockets; 0 means half of the connection limit")                                \
    X(trusted_proxy, "trusted-proxy", LIST, "", 0, 0, "ADDRESS,...",                               \
      "addresses or prefixes of proxies whose X-Forwarded-For header identifies the client; "      \
      "uid:N trusts the processes of a user on Unix sockets")                                      \
    X(header_timeout_ms, "header-timeout-ms", COUNT, "10000", 1, 86400000, "MS",                   \
      "maximum time from the first byte of a request to the end of its headers; also how long "    \
      "a body or reply can stay below the minimum rate")                                           \
    X(min_rate, "min-rate", BYTES, "1K", 0, INT64_MAX, "BYTES",                                    \
      "minimum average rate per second at which a client must send a body or read a reply; "       \
      "slower clients are disconnected; 0 means no minimum")                                       \
    X(connection_memory, "connection-memory", BYTES, "32K", 4096, 16 << 20, "BYTES",               \
      "size of the buffer for a request's headers; a larger buffer makes uploads faster and "      \
      "small requests slower")                                                                     \
    X(drain_delay_ms, "drain-delay-ms", COUNT, "0", 0, 86400000, "MS",                             \
      "how long to accept connections after SIGTERM or SIGINT, while readyz is 503; must "         \
      "exceed the interval of a load balancer's checks")                                           \
    X(drain_timeout_ms, "drain-timeout-ms", COUNT, "30000", 0, 86400000, "MS",                     \
      "how long requests can run after the drain delay")                                           \
    X(inline_limit_us, "inline-limit-us", COUNT, "20", 0, 1000000, "US",                           \
      "requests estimated to take less time than this run on the I/O thread; 0 queues every op")   \
    X(isa, "isa", ISA, "auto", 0, 0, "ISA",                                                        \
      "instruction set of the ops: auto (the best supported), generic, avx2, avx512, "             \
      "avx512_bf16")                                                                               \
    X(system_shared_memory, "system-shared-memory", SWITCH, "off", 0, 0, "",                       \
      "allow clients of /v2 on this machine to name POSIX shared memory as inputs and outputs")    \
    X(compress, "compress", SWITCH, "off", 0, 0, "",                                               \
      "compress the replies of /v1, not only those of /v2, if Accept-Encoding allows it; costs "   \
      "CPU time")                                                                                  \
    X(gpu, "gpu", DEVICE, "auto", 0, 0, "DEVICE",                                                  \
      "auto (cuda if available), off, cuda, reference (on the CPU) or the path of a plugin; "      \
      ":OPTIONS can follow cuda, reference and a path")                                            \
    X(gpu_memory, "gpu-memory", BYTES, "0", 0, INT64_MAX, "BYTES",                                 \
      "device memory for tables and workspaces; 0 means most of the device's memory")              \
    X(gpu_staging, "gpu-staging", BYTES, "256M", 1 << 20, INT64_MAX, "BYTES",                      \
      "maximum pinned memory for transfers to and from the device; counts toward the memory "      \
      "limit")                                                                                     \
    X(gpu_tf32, "gpu-tf32", SWITCH, "off", 0, 0, "",                                               \
      "allow the device to round inputs of float32 matrix products to 10 bits")                    \
    X(gpu_hang_ms, "gpu-hang-ms", COUNT, "10000", 1, 86400000, "MS",                               \
      "maximum time of a batch, excluding its transfers; a device that takes longer is "           \
      "considered lost")                                                                           \
    X(gpu_retry_ms, "gpu-retry-ms", COUNT, "5000", 1, 86400000, "MS",                              \
      "interval between attempts to open a device that was lost or could not be opened")           \
    X(batch_limit, "batch-limit", COUNT, "256", 1, 65536, "N",                                     \
      "maximum number of requests merged into one launch on the device")                           \
    X(batch_wait_us, "batch-wait-us", COUNT, "0", 0, 1000000, "US",                                \
      "how long an idle device waits after a first request for others to merge with it")           \
    X(log_level, "log-level", LEVEL, "info", 0, 0, "LEVEL",                                        \
      "error, warn, info or debug (debug logs every request)")                                     \
    X(log_format, "log-format", FORMAT, "text", 0, 0, "FORMAT",                                    \
      "text or json, one line per event")                                                          \
    X(access_log, "access-log", RATIO, "off", 0, 0, "FRACTION",                                    \
      "on, off, or the fraction of requests to log at any log level, such as 0.01")                \
    X(slow_ms, "slow-ms", COUNT, "0", 0, 86400000, "MS",                                           \
      "requests whose reply takes longer than this, from the end of their body, are logged at "    \
      "warn; 0 disables this")                                                                     \
    X(otlp_endpoint, "otlp-endpoint", TEXT, "", 0, 0, "URL",                                       \
      "URL of the OpenTelemetry collector that receives the spans of sampled requests, such as "   \
      "http://localhost:4318")                                                                     \
    X(otlp_header, "otlp-header", LIST, "", 0, 0, "NAME=VALUE,...",                                \
      "headers to send to the collector, such as an API key")                                      \
    X(trace_sample, "trace-sample", RATIO, "0.01", 0, 0, "FRACTION",                               \
      "on, off, or the fraction of requests to trace; for a request with a traceparent header, "   \
      "its sampled flag decides instead")

/* X(member of the section's first option, heading): sections of --help and of the man page. */
#define TD_OPTION_SECTIONS(X)                                                                      \
    X(listen, "Addresses and web pages")                                                           \
    X(token_file, "Access control")                                                                \
    X(data_dir, "Tables")                                                                          \
    X(io_threads, "Threads and the queue")                                                         \
    X(memory_limit, "Memory")                                                                      \
    X(max_body, "Request limits")                                                                  \
    X(idle_timeout_ms, "Connections")                                                              \
    X(drain_delay_ms, "Shutdown")                                                                  \
    X(inline_limit_us, "Computation")                                                              \
    X(gpu, "Device")                                                                               \
    X(log_level, "Log and traces")

/* C type of each option kind. */
#define TD_CONFIG_TYPE_ADDRESS   char *
#define TD_CONFIG_TYPE_ADDRESSES char *
#define TD_CONFIG_TYPE_TEXT      char *
#define TD_CONFIG_TYPE_LIST      char *
#define TD_CONFIG_TYPE_DEVICE    char *
#define TD_CONFIG_TYPE_COUNT     int64_t
#define TD_CONFIG_TYPE_BYTES     int64_t
#define TD_CONFIG_TYPE_MODE      int64_t
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

/* Action requested on the command line. */
enum td_config_action {
    TD_CONFIG_RUN,
    TD_CONFIG_CHECK,        /* --check-config, with a valid configuration */
    TD_CONFIG_CHECK_HEALTH, /* --check-health, with a valid configuration */
    TD_CONFIG_PRINT,        /* --print-config, with a valid configuration */
    TD_CONFIG_HELP,         /* --help */
    TD_CONFIG_VERSION,      /* --version */
    TD_CONFIG_WRONG         /* the message explains the error */
};

/* X(action, name, letter or "", value name, help): arguments that are valid only on the command
 * line, not in the environment or a file. */
#define TD_ARGUMENTS(X)                                                                            \
    X(RUN, "config", "", "FILE", "JSON file with options; can also be set as TENSORD_CONFIG")      \
    X(CHECK, "check-config", "", "",                                                               \
      "check the configuration, the addresses and the data folder, print a report, and exit; "     \
      "status 0: the server would start, 1: it would not start, 2: wrong options")                 \
    X(CHECK_HEALTH, "check-health", "", "",                                                        \
      "ask the server that has this configuration whether it is alive, and exit; status 0: "       \
      "alive, 1: not alive, 2: wrong options")                                                     \
    X(PRINT, "print-config", "", "",                                                               \
      "print the value and the source of each option, without secrets, and exit; status 2: "       \
      "wrong options")                                                                             \
    X(VERSION, "version", "v", "", "print the version and exit")                                   \
    X(HELP, "help", "h", "", "print this help and exit")

/* Size in bytes of the buffer for configuration error messages. */
#define TD_CONFIG_MESSAGE 768

void td_config_free(struct td_config *config);

/* True if requests need a token or a client certificate. */
bool td_config_identifies_clients(const struct td_config *config);

enum {
    TD_MOST_ADDRESSES = 16, /* maximum number of --listen addresses */
    TD_ADDRESS_SIZE = 272,  /* size of an address as text, including its NUL */
    TD_SOCKET_PATH = 107    /* maximum length of a Unix socket's path, excluding its NUL */
};

/* Returns the path of a Unix socket's address, the text after "unix:". Returns NULL for other
 * addresses. The result can be an invalid path until td_config_is_address has accepted it. */
const char *td_config_socket_path(const char *address);

/* True if the text is a valid address of --listen: HOST:PORT, [V6]:PORT, or unix: and an absolute
 * path of at most TD_SOCKET_PATH bytes. */
bool td_config_is_address(const char *text);

/* Splits "HOST:PORT" or "[V6]:PORT" into host and port. Returns false for any other format. */
bool td_config_split_address(const char *address, char host[256], uint16_t *port);

/* Copies the next address of a --listen value to `address` and advances *rest past it. Set *rest to
 * the option's value before the first call. Returns false after the last address. */
bool td_config_next_address(const char **rest, char address[TD_ADDRESS_SIZE]);

#endif
