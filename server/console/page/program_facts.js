// The known facts of a program: dtypes and shapes of its values, and the costs and times of its steps.

import {bytes, count, seconds} from "./numbers.js";
import {describe, listOps} from "./ops.js";

const unknown = {dtype: "set by data", shape: null}; // the result of a step in a plan, if its shape depends on data

// Returns a text such as "float32 [n,64]". A size that depends on data is "?".
export function typeOf(type) {
  if (!type?.dtype || type === unknown) return type?.dtype ?? "";
  return `${type.dtype} [${type.shape?.map((size) => size ?? "?").join(",") ?? "?"}]`;
}

// Returns the descriptions of the program's ops by name, without names that are not ops.
export async function describeOps({steps}) {
  const known = new Set((await listOps()).ops.map(({name}) => name));
  const names = [...new Set(steps.map(({op}) => op))].filter((name) => known.has(name));
  return new Map((await Promise.all(names.map(describe))).map((op) => [op.name, op]));
}

const hasLetters = (type) => type?.shape?.some((size) => typeof size === "string");

export class ProgramFacts {
  // `ops`: from describeOps; `described`: the server's description of the program if it is stored and its text is unchanged, or null.
  constructor(program, ops, described = null) {
    Object.assign(this, {program, ops, steps: program.steps.map(() => ({}))});
    this.types = new Map(program.inputs.filter(({declared}) => declared).map(({name, declared}) => [name, declared]));
    if (described) this.addTypes(described.steps);
  }

  // Takes the types of the results of all steps. Keeps shapes with letters, because they say more than numbers.
  addTypes(steps) {
    this.program.steps.forEach(({op, results}, at) => {
      const outputs = this.ops.get(op)?.outputs ?? [];
      for (const {name, place} of results) {
        const type = steps[at]?.results[typeof place === "number" ? place : outputs.findIndex((output) => output.name === place)];
        if (type && !hasLetters(this.types.get(name))) this.types.set(name, type);
        else if (type === null && !this.types.has(name)) this.types.set(name, unknown);
      }
    });
  }

  addPlan({steps}) {
    this.addTypes(steps);
    steps.forEach((step, at) => Object.assign(this.steps[at], {flops: numberOf(step.flops), bytes: sizeOf(step.results), runs: runsOf(step)}));
  }

  // `steps`: the times from the reply of a run; `bounds`: the replaced indices, or undefined.
  addRun(steps, bounds) {
    for (const step of this.steps) Object.assign(step, {time: "", replaced: ""});
    for (const {step, last = step, ms: took} of steps)
      for (let at = step; at <= last; at++) this.steps[at].time = at === last ? seconds(took / 1000) : `in ${last}`;
    for (const {step, policy, replaced} of bounds ?? []) this.steps[step].replaced = `${replaced} replaced (${policy})`;
  }

  // Returns the costs of a step in one line.
  costOf(at) {
    const {time, flops, bytes: size} = this.steps[at];
    return [flops ? count(flops, "FLOPs") : "", size > 0 ? bytes(size) : "", time].filter(Boolean).join(" · ");
  }
}

const numberOf = (value) => (value === undefined ? undefined : Number(value));

// Returns the bytes of the results of a step, or undefined if they depend on data.
const sizeOf = (results) => (results.includes(null) ? undefined : results.reduce((sum, result) => sum + Number(result.bytes), 0));

const runsOf = ({runs, from, to}) => (runs === "fused" ? `in one pass, ${from} to ${to}` : runs === "shared" ? "copies nothing" : "");
