#!/bin/sh
# curl.sh - tensord from a shell: store a table, look up rows, multiply, update, read an error, delete the table.
#
#     api/clients/curl.sh [http://host:port]
#
# Needs curl; od prints the numbers of the binary reply. Use a tool like jq to parse the JSON.
set -eu

server=${1:-http://127.0.0.1:8080}
table=$server/v1/tensors/curl-example
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# post PATH JSON [CURL OPTION...]: sends a request and prints the reply. With --fail-with-body an error would end the
# script; here the reply is printed in both cases. X-Request-Id is optional: it is returned in the reply and written
# to the server's log, where it identifies the request.
post() {
    path=$1 json=$2
    shift 2
    curl -s "$server$path" -H 'X-Request-Id: curl-example' -d "$json" "$@"
}

# The table is stored under its name. Nested lists that contain a fraction are float32;
# `-T table.npy` would upload a NumPy file instead.
curl -s -X PUT "$table" -d '[[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]' -o "$work/put" -w 'put: %{http_code}\n'

# Rows 2 and 0, as JSON.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' -w '\n'

# The same in binary. A safetensors file is the length of its header in eight bytes, little-endian; the
# header, JSON with dtype, shape and offsets of each tensor; and the tensors' bytes.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' \
    -H 'Accept: application/vnd.safetensors' -o "$work/rows.safetensors"
header=$(od -A n -t u8 -N 8 "$work/rows.safetensors")
echo "binary:$(od -A n -t f4 -j $((8 + header)) "$work/rows.safetensors")"

# The dot product of every row with [1, 2].
post /v1/einsum '{"equation": "ij,j->i", "inputs": [{"ref": "curl-example"}, [1.0, 2.0]]}' -w '\n'

# Row 1 becomes [7.5, 8.5]; concurrent lookups return the old row or the new one, never a mixture.
# Each index is a list of coordinates, hence the inner brackets.
post /v1/tensors/curl-example/scatter '{"indices": [[1]], "updates": [[7.5, 8.5]]}' -o "$work/scatter"
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": 1}' -w '\n'

# There is no row 7. The error is described for people (detail) and for programs (code, position, index, bound).
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [0, 7]}' -w '\nstatus: %{http_code}\n'

curl -s -X DELETE "$table" -w 'delete: %{http_code}\n'
