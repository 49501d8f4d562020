// A request for an op, whose reply may be large.

import * as api from "./api.js";
import {run} from "./background.js";

// "decode;dur=0.006, compute;dur=0.008" as milliseconds by name.
const stagesOf = (header) => Object.fromEntries([...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, text]) => [name, Number(text)]));

// {ms, stages, read}; `stages`: what the server measured, if the request asks for `timing`; `read`: what the task "reply" makes of the body.
export async function runOp(path, value, options) {
  const {buffer, ms, headers} = await api.postForBytes(path, value, options);
  return {ms, stages: stagesOf(headers.get("Server-Timing")), read: await run("reply", {buffer}, buffer.byteLength, [buffer])};
}
