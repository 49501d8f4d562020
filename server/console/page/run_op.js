// Sends a request for an op. The reply can be large.

import * as api from "./api.js";
import {run} from "./background.js";

// Parses "decode;dur=0.006, compute;dur=0.008" into milliseconds by name.
const stagesOf = (header) => Object.fromEntries([...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, text]) => [name, Number(text)]));

// Returns {ms, stages, read}. `stages`: times that the server measured, if the request asks for `timing`; `read`: the result of the task "reply".
export async function runOp(path, value, options) {
  const {buffer, ms, headers} = await api.postForBytes(path, value, options);
  return {ms, stages: stagesOf(headers.get("Server-Timing")), read: await run("reply", {buffer}, buffer.byteLength, [buffer])};
}
