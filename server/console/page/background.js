// Moves work that would block the page for more than a frame to a worker. Small work runs at once.

import {tasks} from "./tasks.js";

const large = 100000; // bytes or characters; parsing this much text takes about 10 ms

let worker, next = 0;
const waiting = new Map();

function settle({id, result, failed}) {
  const {resolve, reject} = waiting.get(id);
  waiting.delete(id);
  if (failed) reject(failed.name === "SyntaxError" ? new SyntaxError(failed.message) : new Error(failed.message));
  else resolve(result);
}

function start() {
  worker = new Worker("/console/worker.js", {type: "module"});
  worker.addEventListener("message", ({data}) => settle(data));
  worker.addEventListener("error", (event) => {
    for (const id of [...waiting.keys()]) settle({id, failed: {message: `the worker of this page failed: ${event.message ?? "it could not be loaded"}`}});
    worker = null;
  });
}

// Returns the result of a task in tasks.js. `size`: size of the task's input; `buffers`: transferred to the worker, not copied.
export async function run(task, given, size, buffers = []) {
  if (size <= large) return (await tasks[task](given))[0];
  if (!worker) start();
  return new Promise((resolve, reject) => {
    waiting.set(next, {resolve, reject});
    worker.postMessage({id: next, task, given}, buffers);
    next += 1;
  });
}

export const isLarge = (size) => size > large;
