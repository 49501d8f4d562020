-- post.lua BODY_FILE CONTENT_TYPE [ACCEPT]: for wrk; sends one fixed POST over and over and prints its figures
-- on one line. Without a request function wrk builds the request once, and without a response function it
-- parses no more of the answers than it must.

function init(args)
    local file = assert(io.open(args[1], "rb"))
    wrk.method, wrk.body = "POST", file:read("*a")
    file:close()
    wrk.headers["Content-Type"] = args[2]
    if args[3] then
        wrk.headers["Accept"] = args[3]
    end
end

function done(summary, latency)
    local errors = summary.errors
    print(string.format("figures %d %d %d %d", summary.requests, summary.duration,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(99)))
end
