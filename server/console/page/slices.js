// Runs long work that needs the document in slices, so the page can respond between them.

const budgetMs = 8; // half a frame; the other half is for layout

// Runs a generator to its end while `wanted` is true. The first slice runs at once, each later slice in its own turn of the event loop.
export async function inSlices(steps, wanted) {
  for (;;) {
    const end = performance.now() + budgetMs;
    do if (steps.next().done) return;
    while (performance.now() < end);
    await new Promise((resolve) => {
      setTimeout(resolve);
    });
    if (!wanted()) return;
  }
}
