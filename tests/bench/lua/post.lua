-- post.lua BODY_FILE PAUSE_MS ["NAME: VALUE"]...: for wrk; sends one fixed POST over and over and prints its
-- figures on one line. Without a request function wrk builds the request once, and without a response function it
-- parses no more of the answers than it must. With a pause each connection waits that long between two requests,
-- half as much to half more; the wait is no part of the latency.

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
