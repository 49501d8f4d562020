// Work that takes long for large tensors: reading replies, typed text and files. Does not use the document, so a worker can run it.

import {base64, elementsOf, readTensor} from "./files.js";
import * as json from "./json.js";
import {pictureOf} from "./picture.js";
import {compact, flatten, fromReply, inferDtype, isComplex, mostCells, numel, outputsOf} from "./tensor.js";

const headBytes = 20000;

// Replaces the cells of a large tensor with a picture.
function shown(tensor) {
  if (!tensor.flat || numel(tensor.shape) <= mostCells) return tensor;
  const small = compact(tensor);
  return small.flat ? {...small, picture: pictureOf(small)} : small;
}

const buffersOf = (tensor) => (tensor.picture ? [tensor.flat.buffer, tensor.picture.pixels.buffer] : []);

export function readText({text, dtype, isIndex}) {
  const {shape, flat} = flatten(json.parse(text), isComplex(dtype));
  return shown({shape, flat, dtype: dtype || inferDtype(flat, isIndex, text)});
}

// Returns the first part of a reply's text, without a character that is cut off.
const headOf = (buffer) => new TextDecoder().decode(new Uint8Array(buffer, 0, Math.min(headBytes, buffer.byteLength)), {stream: true});

export const tasks = {
  // Reads the body of a reply: {outputs: [{name, tensor}], bounds, steps, head, buffer}; `steps`: the times of a program's steps; `head`: the
  // first part of the text.
  reply({buffer}) {
    const text = new TextDecoder().decode(buffer), document = json.parse(text);
    const outputs = outputsOf(document).map(({name, tensor}) => ({name, tensor: shown(fromReply(tensor))}));
    return [{outputs, bounds: document.bounds, steps: document.steps, head: headOf(buffer), buffer}, [buffer, ...outputs.flatMap(({tensor}) => buffersOf(tensor))]];
  },

  // Reads a nested list as typed. Returns the tensor and the text to send.
  text(given) {
    const tensor = readText(given);
    return [{tensor, blob: new Blob([given.text])}, buffersOf(tensor)];
  },

  // Returns the names of all tensors in a file, and the wanted tensor or else the first. If it is large, also returns it as a member of a request.
  async file({file, wanted}) {
    const {names, tensor: {name, dtype, shape, bytes}} = await readTensor(file, wanted);
    const tensor = {...shown({dtype, shape, flat: elementsOf(dtype, bytes)}), name};
    return [{tensor, names, request: tensor.picture ? new Blob([json.stringify({dtype, shape, base64: base64(bytes)})]) : null}, buffersOf(tensor)];
  },
};
