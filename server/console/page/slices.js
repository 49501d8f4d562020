// Long work that needs the document, in slices between which the page answers.

const budgetMs = 8; // half a frame; the other half is for the layout of what was added

// Runs a generator to its end: at once until it has used its first slice, then a slice a turn, while `wanted` holds.
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
