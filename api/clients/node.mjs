#!/usr/bin/env node
// tensord from Node 18 or newer, without a package.
//
//     api/clients/node.mjs [http://host:port]
//
// Stores a table, looks up rows in JSON and in binary, multiplies, updates, reads an error and deletes the table.

const server = process.argv[2] ?? 'http://127.0.0.1:8080';
const SAFETENSORS = 'application/vnd.safetensors';

/** An error reply; `problem` is the problem document, with code, detail and other members. */
class ServerError extends Error {
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** Sends a request and returns the reply. An ArrayBuffer is sent as safetensors, anything else as JSON. */
async function sendRequest(method, path, body, accept = 'application/json') {
  const binary = body instanceof ArrayBuffer;
  const reply = await fetch(server + path, {
    method,
    headers: { 'Content-Type': binary ? SAFETENSORS : 'application/json', Accept: accept },
    body: binary ? body : JSON.stringify(body),
  });
  if (!reply.ok) throw new ServerError(await reply.json());
  return reply;
}

const post = async (path, body) => (await sendRequest('POST', path, body)).json();

/** A safetensors file of one int32 tensor: the length of the header, the header as JSON, the tensor's bytes. */
function safetensorsOf(name, values, metadata) {
  const header = {
    __metadata__: metadata,
    [name]: { dtype: 'I32', shape: [values.length], data_offsets: [0, values.byteLength] },
  };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + values.byteLength);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  file.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 8 + text.length);
  return file.buffer;
}

/** The values of a float32 tensor in a safetensors file. */
function float32Of(file, name) {
  const start = 8 + Number(new DataView(file).getBigUint64(0, true));
  const entry = JSON.parse(new TextDecoder().decode(file.slice(8, start)))[name];
  if (entry.dtype !== 'F32') throw new TypeError(`${name} is ${entry.dtype}`);
  return new Float32Array(file.slice(start + entry.data_offsets[0], start + entry.data_offsets[1]));
}

// The table is stored under its name. JavaScript writes 1.0 as 1, which would be an integer, so the dtype is given.
const table = { dtype: 'float32', data: [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]] };
const about = await (await sendRequest('PUT', '/v1/tensors/node-example', table)).json();
console.log('table:', about.dtype, about.shape);

// Rows 2 and 0: the request refers to the table and contains only the indices.
const params = { ref: 'node-example' };
console.log('json:', (await post('/v1/gather', { params, indices: [2, 0] })).output.data);

// The same in binary: tensors have the names of the op's inputs, the metadata has references and attributes.
const request = safetensorsOf('indices', Int32Array.of(2, 0), { 'params.ref': 'node-example' });
const reply = await sendRequest('POST', '/v1/gather', request, SAFETENSORS);
console.log('binary:', ...float32Of(await reply.arrayBuffer(), 'output'));

// The dot product of every row with [1, 2].
const inputs = [params, { dtype: 'float32', data: [1, 2] }];
console.log('einsum:', (await post('/v1/einsum', { equation: 'ij,j->i', inputs })).output.data);

// Row 1 is replaced in place. Each index is a list of coordinates; mode: 'add' would add instead.
await post('/v1/tensors/node-example/scatter', { indices: [[1]], updates: [[7.5, 8.5]] });
console.log('scatter:', (await post('/v1/gather', { params, indices: 1 })).output.data);

// There is no row 7.
try {
  await post('/v1/gather', { params, indices: [0, 7] });
} catch (e) {
  if (!(e instanceof ServerError)) throw e;
  const p = e.problem;
  console.log(`error: ${p.code}: ${p.input}[${p.position}] is ${p.index}, the bound ${p.bound}`);
}

await sendRequest('DELETE', '/v1/tensors/node-example');
console.log('deleted');
