-- post.lua BODY_FILE PAUSE_MS ["NAME: VALUE"]...: a script for wrk that repeats one fixed POST and prints the figures
-- on one line. Without a request function, wrk builds the request once. Without a response function, it does not parse
-- the replies. With a pause, each connection waits 0.5 to 1.5 times PAUSE_MS between two requests. The wait does not
-- count as latency.

function init(args)
    local file = assert(io.open(args[1], "rb"))
    wrk.method, wrk.body = "POST", file:read("*a")
    file:close()
    local pause = tonumber(args[2])
    if pause > 0 then
        delay = function() return math.random(math.ceil(pause / 2), math.ceil(pause * 3 / 2)) end
    end
    for i = 3, #args do
        local name, value = args[i]:match("^([^:]+): (.*)$")
        wrk.headers[name] = value
    end
end

function done(summary, latency)
    local errors = summary.errors
    print(string.format("figures %d %d %d %d", summary.requests, summary.duration,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(99)))
end
