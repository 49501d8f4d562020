#!/bin/sh
# curl.sh - uses tensord from a shell: stores a table, looks up rows, multiplies, updates, reads an error, deletes the table.
#
#     api/clients/curl.sh [http://host:port]
#
# Needs curl. The script prints the numbers of the binary reply with od. To parse the JSON, use a tool such as jq.
set -eu

server=${1:-http://127.0.0.1:8080}
table=$server/v1/tensors/curl-example
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# post PATH JSON [CURL OPTION...]: sends a request and prints the reply, also if it is an error. To end the script after an
# error, add --fail-with-body. X-Request-Id is optional: the server returns it in the reply and writes it to the log, where
# it identifies the request.
post() {
    path=$1 json=$2
    shift 2
    curl -s "$server$path" -H 'X-Request-Id: curl-example' -d "$json" "$@"
}

# Store the table. Nested lists with a fraction become float32. To upload a NumPy file instead, use `-T table.npy`.
curl -s -X PUT "$table" -d '[[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]' -o "$work/put" -w 'put: %{http_code}\n'

# Read rows 2 and 0 as JSON.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' -w '\n'

# Read the same rows in binary. A safetensors file has three parts: the length of the header (eight bytes, little-endian),
# the header (JSON with the dtype, shape and offsets of each tensor), and the data of the tensors.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' \
    -H 'Accept: application/vnd.safetensors' -o "$work/rows.safetensors"
header=$(od -A n -t u8 -N 8 "$work/rows.safetensors")
echo "binary:$(od -A n -t f4 -j $((8 + header)) "$work/rows.safetensors")"

# Compute the dot product of every row with [1, 2].
post /v1/einsum '{"equation": "ij,j->i", "inputs": [{"ref": "curl-example"}, [1.0, 2.0]]}' -w '\n'

# Replace row 1 with [7.5, 8.5]. Concurrent lookups return the old row or the new row, never a mixture.
# Each index is a list of coordinates, hence the inner brackets.
post /v1/tensors/curl-example/scatter '{"indices": [[1]], "updates": [[7.5, 8.5]]}' -o "$work/scatter"
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": 1}' -w '\n'

# Row 7 does not exist, so this request fails. The error has a text for people (detail) and members for programs (code,
# position, index, bound).
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [0, 7]}' -w '\nstatus: %{http_code}\n'

curl -s -X DELETE "$table" -w 'delete: %{http_code}\n'
