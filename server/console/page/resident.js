// The descriptions of the resident tensors, which several fields ask for.

import * as api from "./api.js";

// Returns descriptions of the resident tensors by name. An alias has the description of its version.
async function readTables() {
  const [{tensors}, {aliases}] = await Promise.all([api.getJson("/v1/tensors"), api.getJson("/v1/aliases")]);
  const tables = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const named = Object.entries(aliases).filter(([, target]) => tables.has(target)).map(([name, target]) => [name, {...tables.get(target), name}]);
  return new Map([...named, ...tables]);
}

const tablesAgeMs = 500; // so that typing a name does not send a request for each letter
let known = null;

export function residentTables() {
  if (!known || performance.now() - known.at > tablesAgeMs) known = {at: performance.now(), tables: readTables()};
  return known.tables;
}
