// Finds keys of a resident table by prefix. The server finds whole keys; for a prefix, this module reads the keys page by page
// and compares them.

import * as api from "./api.js";
import {base64} from "./files.js";
import * as json from "./json.js";
import {tableRequest} from "./ops.js";
import {outputsOf} from "./tensor.js";

const pageRows = 8192;

// Returns the name of a table's part, which is t.scale@1 for the scale of t@1.
export const partOf = (name, part) => name.replace(/(@|$)/, `.${part}$1`);

export const keysOf = (name) => partOf(name, "keys");

export const isInteger = (text) => /^-?\d+$/.test(text);

// Reads the keys of the rows from `begin` up to but not including `end`.
async function readPage(table, begin, end, signal) {
  const numbers = BigInt64Array.from({length: end - begin}, (_, i) => BigInt(begin + i));
  const rows = {dtype: "int64", shape: [end - begin], base64: base64(new Uint8Array(numbers.buffer))};
  const reply = await api.postJson(...await tableRequest("rows", keysOf(table.name), rows), {signal});
  return outputsOf(json.parse(reply.text))[0].tensor.data;
}

// Returns the row of a whole key, or -1.
async function rowOf(table, text, signal) {
  if (table.keys !== "string" && !isInteger(text)) return -1;
  const query = table.keys === "string" ? text : new json.Raw(text);
  try {
    const reply = await api.postJson(...await tableRequest("row_numbers", table.name, [query]), {signal});
    return outputsOf(json.parse(reply.text))[0].tensor.data[0];
  } catch (error) {
    if (error instanceof api.Problem) return -1; // a number outside the range of the keys' dtype
    throw error;
  }
}

// Searches a table for keys that start with `text`. `table`: its description; `from`: the first row to read. Returns
// {found: [{key, row}], next}; next is the row to continue from, or the number of rows. Stops after finding `mostFound` keys or
// reading `mostRead`. A key equal to `text` comes first, wherever its row is.
export async function searchKeys(table, text, from, {mostFound = 50, mostRead = 131072, signal} = {}) {
  const rows = table.shape[0], found = [];
  const whole = text ? await rowOf(table, text, signal) : -1;
  if (whole >= 0 && from === 0) found.push({key: table.keys === "string" ? text : json.parse(text), row: whole});
  const last = Math.min(rows, from + mostRead);
  let next = from;
  while (next < last && found.length < mostFound) {
    const end = Math.min(last, next + (text ? pageRows : mostFound));
    for (const key of await readPage(table, next, end, signal)) {
      if (found.length === mostFound) break;
      if (next !== whole && String(key).startsWith(text)) found.push({key, row: next});
      next += 1;
    }
  }
  return {found, next};
}
