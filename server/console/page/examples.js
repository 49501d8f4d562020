// More requests to begin with than the one in the description of an op: [what it shows, the request].

const table = [[1, 2], [3, 4], [5, 6]];
const cube = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]];

const more = {
  gather: [
    ["columns: axis 1", {params: [[1, 2, 3], [4, 5, 6]], indices: [2, 0], axis: 1}],
    ["a row of each batch", {params: cube, indices: [[2, 0], [1, 1]], axis: 1, batch_dims: 1}],
    ["strings", {params: ["Mercury", "Venus", "Earth"], indices: [[2, 0], [1, 1]]}],
    ["zeros where an index is out of range", {params: table, indices: [0, 7], bounds: "zero"}],
    ["an index out of range", {params: table, indices: [0, 7]}],
  ],
  gather_nd: [
    ["rows of a cube", {params: cube, indices: [[1, 0], [0, 2]]}],
    ["one of each batch", {params: cube, indices: [[2], [0]], batch_dims: 1}],
  ],
  dynamic_stitch: [["an index twice: the last one counts", {indices: [[0, 1], [1]], data: [[10, 20], [30]]}]],
  dynamic_partition: [["three parts, one of them empty", {data: ["a", "b", "c"], partitions: [2, 0, 2], num_partitions: 3}]],
  einsum: [
    ["a chain of three matrices", {equation: "ij,jk,kl->il", inputs: [[[1, 2, 3], [4, 5, 6]], [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], [[1, 0], [0, 1], [1, 1], [2, 3]]]}],
    ["a product of each batch", {equation: "bij,bjk->bik", inputs: [cube, [[[1, 0], [0, 1]], [[1, 1], [1, 1]]]]}],
    ["transposition", {equation: "ij->ji", inputs: [table]}],
    ["trace", {equation: "ii->", inputs: [[[1, 2], [3, 4]]]}],
    ["outer product", {equation: "i,j->ij", inputs: [[1, 2, 3], [10, 20]]}],
    ["sums of rows, whatever is before them", {equation: "...i->...", inputs: [cube]}],
  ],
  concat: [["below each other", {inputs: [[[1, 2]], [[3, 4], [5, 6]]]}]],
  cast: [["half precision", {x: [0.1, 65504, 100000], dtype: "float16"}]],
  top_k: [["the smallest one", {x: [[1, 5, 3], [9, 7, 8]], k: 1, largest: false}]],
  find: [["by strings", {keys: ["Mercury", "Venus", "Earth"], queries: [["Earth", "Mars"]]}]],
  lookup: [["a default where a key is missing", {params: table, keys: ["a", "b", "c"], queries: ["c", "z"], missing: "default", default: [-1, -1]}]],
  embedding_bag: [
    ["means", {params: table, indices: [2, 0, 1], offsets: [0, 2], mode: "mean"}],
    ["weighted sums", {params: [[1, 2], [3, 4.5], [5, 6]], indices: [2, 0, 1], offsets: [0, 2], weights: [0.5, 0.5, 2]}],
    ["bags by segment ids", {params: table, indices: [2, 0, 1], segment_ids: [0, 0, 2], num_segments: 3}],
  ],
  dequantize: [["one scale for all", {params: {dtype: "uint8", data: [[0, 128], [255, 1]]}, scale: 0.5, offset: -64}]],
};

// `op`: its description.
export const examplesOf = (op) => [["of the reference", op.example.request], ...more[op.name] ?? []];
