// Runs the tasks in a worker thread, one at a time.

import {tasks} from "./tasks.js";

self.addEventListener("message", async ({data: {id, task, given}}) => {
  try {
    const [result, buffers] = await tasks[task](given);
    self.postMessage({id, result}, buffers);
  } catch (error) {
    self.postMessage({id, failed: {name: error.name, message: error.message}});
  }
});
