#!/bin/sh
# curl.sh - tensord from a shell: keep a table, look rows up, multiply, update, read an error, clean up.
#
#     api/clients/curl.sh [http://host:port]
#
# Needs curl; the numbers of the binary answer are shown with od. A tool like jq reads the rest.
set -eu

server=${1:-http://127.0.0.1:8080}
table=$server/v1/tensors/curl-example
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# post PATH JSON [CURL OPTION...]: a request and its answer. With --fail-with-body a refusal would end the
# script; here the answer itself says what happened. X-Request-Id is optional: it comes back in the answer
# and stands in the server's log, so that both ends can speak of the same request.
post() {
    path=$1 json=$2
    shift 2
    curl -s "$server$path" -H 'X-Request-Id: curl-example' -d "$json" "$@"
}

# The table is kept under its name from now on. Nested lists with a fraction in them are float32;
# `-T table.npy -H 'Content-Type: application/x-npy'` would upload a file of NumPy instead.
curl -s -X PUT "$table" -d '[[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]' -o "$work/put" -w 'put: %{http_code}\n'

# Rows 2 and 0, as JSON.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' -w '\n'

# The same in binary. A safetensors file is the length of its header in eight bytes, little-endian, the
# header, which is JSON and tells dtype, shape and place of each tensor, and the tensors' bytes.
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [2, 0]}' \
    -H 'Accept: application/vnd.safetensors' -o "$work/rows.safetensors"
header=$(od -A n -t u8 -N 8 "$work/rows.safetensors")
echo "binary:$(od -A n -t f4 -j $((8 + header)) "$work/rows.safetensors")"

# The dot product of every row with [1, 2].
post /v1/einsum '{"equation": "ij,j->i", "inputs": [{"ref": "curl-example"}, [1.0, 2.0]]}' -w '\n'

# Row 1 becomes [7.5, 8.5]; everybody who looks rows up sees the old row or the new one, never a mixture.
# Each index is a list of coordinates, hence the inner brackets.
post /v1/tensors/curl-example/scatter '{"indices": [[1]], "updates": [[7.5, 8.5]]}' -o "$work/scatter"
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": 1}' -w '\n'

# There is no row 7. The answer says so for people (detail) and for programs (code, position, index, bound).
post /v1/gather '{"params": {"ref": "curl-example"}, "indices": [0, 7]}' -w '\nstatus: %{http_code}\n'

curl -s -X DELETE "$table" -w 'delete: %{http_code}\n'
