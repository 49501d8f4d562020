// The server's descriptions of its ops, each requested only once.

import * as api from "./api.js";

const known = new Map();

async function once(path) {
  if (!known.has(path)) known.set(path, await api.getJson(path));
  return known.get(path);
}

export const listOps = () => once("/v1/ops");

const fewest = 4; // ops of a family that is shown as a group

// Groups ops by family, in the order of the list: [[name, ops], ...]. The first group, without a name, has the ops of small families.
export function families(ops) {
  const groups = new Map([["", []]]), sizeOf = (family) => ops.filter((op) => op.family === family).length;
  for (const op of ops) {
    const name = sizeOf(op.family) < fewest ? "" : op.family.replaceAll("_", " ");
    groups.set(name, [...groups.get(name) ?? [], op]);
  }
  return [...groups];
}

export const describe = (name) => once(`/v1/ops/${encodeURIComponent(name)}`);

// Returns the input with this part in an op that picks rows of a table.
export const inputOf = (op, part) => op.inputs.find((input) => input.part === part);

// Returns the op that a resident table's "rows", "row_numbers" or "nearest_rows" come from.
export const tableOp = async (wanted) => describe((await listOps()).table_ops[wanted]);

export const tablePath = (table, op) => `/v1/tensors/${encodeURIComponent(table)}/${op.name}`;

// Returns the path and body of a request for a resident table's "rows", or for the "row_numbers" of its keys.
export async function tableRequest(wanted, table, queries) {
  const op = await tableOp(wanted);
  return [tablePath(table, op), {[inputOf(op, "query").name]: queries}];
}
