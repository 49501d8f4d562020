/* client.c - uses tensord from C, with libcurl and cJSON.
 *
 *     cc -o client api/clients/client.c $(pkg-config --cflags --libs libcurl libcjson)
 *     ./client [http://host:port]
 *
 * Stores a table, looks up rows in JSON and in binary, multiplies, updates, reads an error and
 * deletes the table. Assumes a little-endian machine, because the binary numbers are
 * little-endian. */
#include <cjson/cJSON.h>
#include <curl/curl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON        "application/json"
#define SAFETENSORS "application/vnd.safetensors"
#define TABLE       "/v1/tensors/c-example"
#define REF         "{\"ref\": \"c-example\"}"

struct reply {
    long status;
    size_t size;
    /* Body of `size` bytes and a terminating NUL. The caller frees it. */
    char *body;
};

static const char *server = "http://127.0.0.1:8080";

static void die(const char *what)
{
    fprintf(stderr, "client: %s\n", what);
    exit(1);
}

/* Appends a chunk of the body. libcurl calls this function for each chunk. Returning 0 ends the
 * transfer with an error. */
static size_t append(char *chunk, size_t item_size, size_t size, void *user)
{
    struct reply *reply = user;
    char *body = realloc(reply->body, reply->size + item_size * size + 1);
    if (body == NULL)
        return 0;
    memcpy(body + reply->size, chunk, item_size * size);
    reply->body = body;
    reply->size += item_size * size;
    body[reply->size] = '\0';
    return item_size * size;
}

/* Sends JSON. All requests use the same handle, so they share a connection. */
static struct reply send_request(CURL *curl, const char *method, const char *path, const char *json,
                                 const char *accept)
{
    struct reply reply = { .body = calloc(1, 1) };
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: " JSON);
    char url[512];

    snprintf(url, sizeof url, "%s%s", server, path);
    headers = curl_slist_append(headers, accept);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    /* If the body is NULL, libcurl reads it from stdin, so pass an empty string instead. */
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json ? json : "");
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply);
    CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK)
        die(curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply.status);
    curl_slist_free_all(headers);
    return reply;
}

/* Sends JSON and returns the reply, a result or an error, as JSON. The caller deletes it with
 * cJSON_Delete. */
static cJSON *send_json(CURL *curl, const char *method, const char *path, const char *json)
{
    struct reply reply = send_request(curl, method, path, json, "Accept: " JSON);
    cJSON *parsed = cJSON_Parse(reply.body);
    if (parsed == NULL)
        die(reply.body);
    free(reply.body);
    return parsed;
}

/* Like send_json, for a request that must succeed. If the server returns an error, ends the
 * program. */
static cJSON *get_result(CURL *curl, const char *method, const char *path, const char *json)
{
    cJSON *reply = send_json(curl, method, path, json);
    const cJSON *detail = cJSON_GetObjectItem(reply, "detail");
    if (detail != NULL)
        die(cJSON_GetStringValue(detail));
    return reply;
}

/* Sends a request for an op and prints the data of its output. */
static void print_output(CURL *curl, const char *title, const char *path, const char *json)
{
    cJSON *reply = get_result(curl, "POST", path, json);
    const cJSON *output = cJSON_GetObjectItem(reply, "output");
    char *data = cJSON_PrintUnformatted(cJSON_GetObjectItem(output, "data"));
    printf("%s: %s\n", title, data);
    free(data);
    cJSON_Delete(reply);
}

/* Returns the value of a numeric member, or of element i if the member is an array. */
static double number(const cJSON *object, const char *name, int i)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_GetNumberValue(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item);
}

/* Prints a float32 tensor from a safetensors file, which consists of the header length, the header
 * as JSON and the data. */
static void print_float32(const struct reply *file, const char *name)
{
    uint64_t header_size;
    memcpy(&header_size, file->body, sizeof header_size);
    const char *data = file->body + sizeof header_size + header_size;
    cJSON *header = cJSON_ParseWithLength(file->body + sizeof header_size, header_size);
    const cJSON *tensor = cJSON_GetObjectItem(header, name);
    size_t begin = (size_t)number(tensor, "data_offsets", 0);
    size_t end = (size_t)number(tensor, "data_offsets", 1);

    printf("binary:");
    for (float value; begin < end; begin += sizeof value) {
        memcpy(&value, data + begin, sizeof value); /* the data can be unaligned */
        printf(" %g", value);
    }
    printf("\n");
    cJSON_Delete(header);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        server = argv[1];
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        die("no memory");

    /* The table is stored under its name. */
    cJSON *about = get_result(curl, "PUT", TABLE, "[[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]");
    printf("table: %s [%g, %g]\n", cJSON_GetStringValue(cJSON_GetObjectItem(about, "dtype")),
           number(about, "shape", 0), number(about, "shape", 1));
    cJSON_Delete(about);

    /* Picks rows 2 and 0. The request refers to the table and contains only the indices. A JSON
     * request can have a binary reply. */
    const char *rows = "{\"params\": " REF ", \"indices\": [2, 0]}";
    print_output(curl, "json", "/v1/gather", rows);
    struct reply reply = send_request(curl, "POST", "/v1/gather", rows, "Accept: " SAFETENSORS);
    if (reply.status != 200)
        die(reply.body);
    print_float32(&reply, "output");
    free(reply.body);

    /* The dot product of every row with [1, 2]. */
    print_output(curl, "einsum", "/v1/einsum",
                 "{\"equation\": \"ij,j->i\", \"inputs\": [" REF ", [1.0, 2.0]]}");

    /* Replaces row 1 in place. Each index is a list of coordinates. */
    const char *update = "{\"indices\": [[1]], \"updates\": [[7.5, 8.5]]}";
    cJSON_Delete(get_result(curl, "POST", TABLE "/scatter", update));
    print_output(curl, "scatter", "/v1/gather", "{\"params\": " REF ", \"indices\": 1}");

    /* The table has no row 7. Every error has a code for programs and a message, "detail", for
     * people. */
    cJSON *problem =
        send_json(curl, "POST", "/v1/gather", "{\"params\": " REF ", \"indices\": [0, 7]}");
    printf("error: %s: %s[%g] is %g, the bound %g\n",
           cJSON_GetStringValue(cJSON_GetObjectItem(problem, "code")),
           cJSON_GetStringValue(cJSON_GetObjectItem(problem, "input")),
           number(problem, "position", 0), number(problem, "index", 0),
           number(problem, "bound", 0));
    cJSON_Delete(problem);

    reply = send_request(curl, "DELETE", TABLE, NULL, "Accept: " JSON);
    if (reply.status != 204)
        die(reply.body);
    printf("deleted\n");
    free(reply.body);
    curl_easy_cleanup(curl);
    return 0;
}
