-- Lookups of 32 random rows of a resident table, with safetensors replies.
-- TABLE: name of the table (planets); ROWS: its number of rows (8).
local name = os.getenv("TABLE") or "planets"
local n_rows = tonumber(os.getenv("ROWS") or "8")
local n_ids, n_requests = 32, 4096 -- requests are made before the measurement, then sent round robin

local requests, last = {}, 0

function init()
    math.randomseed(1)
    local headers = { ["Content-Type"] = "application/json", ["Accept"] = "application/vnd.safetensors" }
    for i = 1, n_requests do
        local ids = {}
        for k = 1, n_ids do
            ids[k] = math.random(0, n_rows - 1)
        end
        local body = string.format('{"params":{"ref":"%s"},"indices":[%s]}', name, table.concat(ids, ","))
        requests[i] = wrk.format("POST", "/v1/gather", headers, body)
    end
end

function request()
    last = last % n_requests + 1
    return requests[last]
end
