-- The gather of gather_json.lua as a safetensors body, with a safetensors reply.
local ffi = require("ffi")

local params = ffi.new("float[128]")
for i = 0, 127 do
    params[i] = (i * 7 % 900 + 100) / 1000
end
local indices = ffi.new("int32_t[4]", 1, 5, 9, 13)

local header = '{"params":{"dtype":"F32","shape":[16,8],"data_offsets":[0,512]},'
    .. '"indices":{"dtype":"I32","shape":[4],"data_offsets":[512,528]}}'
header = header .. string.rep(" ", -#header % 8) -- padding, so that the values are aligned

wrk.method = "POST"
wrk.path = "/v1/gather"
wrk.headers["Content-Type"] = "application/vnd.safetensors"
wrk.body = ffi.string(ffi.new("uint64_t[1]", #header), 8) .. header
    .. ffi.string(params, 512) .. ffi.string(indices, 16)
