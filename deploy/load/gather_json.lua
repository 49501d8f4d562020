-- A small gather with all tensors in the request, as JSON: params float32 [16,8], 4 indices, a body of 833 bytes.
local rows = {}
for r = 0, 15 do
    local row = {}
    for c = 0, 7 do
        row[c + 1] = string.format("0.%03d", (r * 8 + c) * 7 % 900 + 100)
    end
    rows[r + 1] = "[" .. table.concat(row, ",") .. "]"
end

wrk.method = "POST"
wrk.path = "/v1/gather"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"params":[' .. table.concat(rows, ",") .. '],"indices":[1,5,9,13]}'
