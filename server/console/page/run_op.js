// A request for an op, whose reply may be large.

import * as api from "./api.js";
import {run} from "./background.js";

// {ms, read}; `read`: what the task "reply" makes of the body.
export async function runOp(path, value, options) {
  const {buffer, ms} = await api.postForBytes(path, value, options);
  return {ms, read: await run("reply", {buffer}, buffer.byteLength, [buffer])};
}
