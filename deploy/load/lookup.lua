-- 32 random rows of a resident table, as one feature lookup asks for them; answered in safetensors.
-- TABLE names the table (planets), ROWS says how many rows it has (8).
local name = os.getenv("TABLE") or "planets"
local n_rows = tonumber(os.getenv("ROWS") or "8")
local n_ids, n_requests = 32, 4096 -- requests are made before the clock starts, then sent in turn

local requests, turn = {}, 0

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
    turn = turn % n_requests + 1
    return requests[turn]
end
