// Work that would stop the page for longer than a frame is done by a worker; small work is done at once.

import {tasks} from "./tasks.js";

const large = 100000; // bytes or characters: as text, some 10 ms of reading

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
    for (const id of [...waiting.keys()]) settle({id, failed: {message: `the worker of this page failed: ${event.message ?? "it was not loaded"}`}});
    worker = null;
  });
}

// The result of a task of tasks.js; `size`: of what it reads; `buffers`: handed over, not copied.
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
