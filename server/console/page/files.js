// Reads .npy and .safetensors files that the user drops.

const fromSafetensors = {BOOL: "bool", I8: "int8", I16: "int16", I32: "int32", I64: "int64", U8: "uint8", U16: "uint16", U32: "uint32",
  U64: "uint64", F16: "float16", BF16: "bfloat16", F32: "float32", F64: "float64", C64: "complex64"};

const fromNumpy = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
  "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"};

export const sizeOf = {bool: 1, int8: 1, int16: 2, int32: 4, int64: 8, uint8: 1, uint16: 2, uint32: 4, uint64: 8, float16: 2,
  bfloat16: 2, float32: 4, float64: 8, complex64: 8, complex128: 16};

const headerLength = 1 << 16; // bytes of a file to read first

const slice = async (file, begin, end) => new Uint8Array(await file.slice(begin, end).arrayBuffer());

const sizeIn = (shape, dtype) => shape.reduce((product, size) => product * size, 1) * sizeOf[dtype];

function describeNpy(name, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const major = view.getUint8(6);
  const begin = major === 1 ? 10 : 12;
  const end = begin + (major === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  const header = new TextDecoder("latin1").decode(bytes.subarray(begin, end));
  const descr = /'descr':\s*'([<>|=]?)(\w+)'/.exec(header);
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header);
  if (!descr || !shape) throw new Error(`${name}: its header does not describe a plain array`);
  if (/'fortran_order':\s*True/.test(header)) throw new Error(`${name} is in Fortran order; upload the file as a table, or save it in C order`);
  const dtype = fromNumpy[descr[2]];
  if (!dtype || descr[1] === ">") throw new Error(`${name} has elements of ${descr[1]}${descr[2]}, which this page cannot read; upload the file as a table instead`);
  const sizes = shape[1].split(",").map((text) => text.trim()).filter(Boolean).map(Number);
  return [{name: name.replace(/\.npy$/, ""), dtype, shape: sizes, begin: end}];
}

async function describeSafetensors(file, bytes) {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (size > file.size - 8) throw new Error(`${file.name}: its header claims ${size} bytes; the file has ${file.size}`);
  const header = JSON.parse(new TextDecoder().decode(await slice(file, 8, 8 + size)));
  return Object.entries(header).filter(([key]) => key !== "__metadata__").map(([key, entry]) =>
    ({name: key, dtype: Object.hasOwn(fromSafetensors, entry.dtype) ? fromSafetensors[entry.dtype] : String(entry.dtype), shape: entry.shape, begin: 8 + size + entry.data_offsets[0]}));
}

// Returns the tensors that the file's header describes: {name, dtype, shape, begin}. Throws an error that can be shown to the user.
async function describeTensors(file) {
  const bytes = await slice(file, 0, headerLength);
  const tensors = bytes[0] === 0x93 && bytes.length > 10 ? describeNpy(file.name, bytes)
    : bytes.length > 8 && bytes[8] === 0x7b ? await describeSafetensors(file, bytes) : null;
  if (!tensors) throw new Error(`${file.name} is neither an .npy nor a .safetensors file`);
  if (tensors.length === 0) throw new Error(`${file.name} has no tensors`);
  return tensors;
}

// Returns {names, tensor}: the names of all tensors in the file, and the wanted tensor, or else the first, with its bytes.
// Reads no other tensor's bytes.
export async function readTensor(file, wanted) {
  const tensors = await describeTensors(file), {begin, ...tensor} = tensors.find(({name}) => name === wanted) ?? tensors[0];
  if (!Object.hasOwn(sizeOf, tensor.dtype)) throw new Error(`${file.name}: ${tensor.name} has the dtype ${tensor.dtype}, which tensord does not support`);
  const isSize = (size) => Number.isSafeInteger(size) && size >= 0;
  if (!Array.isArray(tensor.shape) || !tensor.shape.every(isSize) || !isSize(begin)) throw new Error(`${file.name}: the shape or the offset of ${tensor.name} is not valid`);
  const expected = sizeIn(tensor.shape, tensor.dtype), bytes = await slice(file, begin, begin + expected);
  if (bytes.length < expected) throw new Error(`${tensor.name} has ${bytes.length} bytes; its shape [${tensor.shape}] needs ${expected}`);
  return {names: tensors.map(({name}) => name), tensor: {...tensor, bytes}};
}

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

const float16 = (bits) => {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
};

// Returns the elements as numbers: BigInt for 64-bit integers, pairs for complex.
export function elementsOf(dtype, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), size = sizeOf[dtype];
  const bfloat = new DataView(new ArrayBuffer(4));
  const read = {
    bool: (at) => view.getUint8(at) !== 0, int8: (at) => view.getInt8(at), uint8: (at) => view.getUint8(at),
    int16: (at) => view.getInt16(at, true), uint16: (at) => view.getUint16(at, true),
    int32: (at) => view.getInt32(at, true), uint32: (at) => view.getUint32(at, true),
    int64: (at) => view.getBigInt64(at, true), uint64: (at) => view.getBigUint64(at, true),
    float16: (at) => float16(view.getUint16(at, true)),
    bfloat16: (at) => {
      bfloat.setUint32(0, view.getUint16(at, true) << 16 >>> 0);
      return bfloat.getFloat32(0);
    },
    float32: (at) => view.getFloat32(at, true), float64: (at) => view.getFloat64(at, true),
    complex64: (at) => [view.getFloat32(at, true), view.getFloat32(at + 4, true)],
    complex128: (at) => [view.getFloat64(at, true), view.getFloat64(at + 8, true)],
  }[dtype];
  return Array.from({length: bytes.length / size}, (_, i) => read(i * size));
}
