// The values of a program: a field for each input without data, for each argument, and for each letter in a shape.

import {AttributeInput} from "./attribute_input.js";
import {el, replace} from "./dom.js";
import * as json from "./json.js";
import {typeOf} from "./program_facts.js";
import {argumentsOf, lettersOf, sizesOf} from "./program_text.js";
import {residentTables} from "./resident.js";
import {TensorInput} from "./tensor_input.js";

const usualSize = 100; // the size of a letter that no value decides; large enough for most values of k

// Returns an argument in the form of an attribute of an op.
function argumentSpec({name, default: own, places: [{op, member}]}, ops) {
  const known = ops.get(op)?.attributes.find((attribute) => attribute.name === member);
  return {summary: "", type: "", ...known, name, required: own === undefined, default: own};
}

const sizeSpec = (letter) => ({name: `size ${letter}`, type: "int64", required: false, default: usualSize, summary: "For Check, if no value decides it."});

const fieldset = (legend, fields) => (fields.size ? el("fieldset", {class: "attributes"}, el("legend", {}, legend), ...[...fields.values()].map(({node}) => node)) : null);

export class ProgramInputs {
  constructor(onchange) {
    Object.assign(this, {onchange, program: null, tensors: new Map(), given: new Map(), sizes: new Map()});
    this.node = el("div", {class: "tensors"});
  }

  // Shows the fields of a program. A field whose input or argument stays the same keeps its value.
  update(program, ops) {
    this.program = program;
    const specs = argumentsOf(program).map((argument) => argumentSpec(argument, ops)), attribute = (spec) => new AttributeInput(spec, this.onchange);
    this.tensors = this.kept(this.tensors, program.inputs.filter(({declared}) => declared), ({name, declared}) => this.tensorInput(name, declared));
    this.given = this.kept(this.given, specs, attribute);
    this.sizes = this.kept(this.sizes, lettersOf(program).map(sizeSpec), attribute);
    replace(this.node, ...[...this.tensors.values()].map(({node}) => node), fieldset("arguments", this.given), fieldset("sizes", this.sizes));
  }

  // Returns fields by name. Keeps fields whose name and specification are unchanged, and makes new fields for the others.
  kept(fields, specs, make) {
    return new Map(specs.map((spec) => {
      const key = json.stringify(spec), old = fields.get(spec.name);
      return [spec.name, old?.key === key ? old : Object.assign(make(spec), {key})];
    }));
  }

  tensorInput(name, declared) {
    return new TensorInput({name, dtype: declared.dtype, dtypes: [declared.dtype]}, name,
      {help: typeOf(declared), onchange: this.onchange, onparsed: this.onchange, tables: residentTables});
  }

  // Sets the fields from the values of a call, {name: value}. `texts`: the values as written.
  set(values, texts = {}) {
    for (const [name, value] of Object.entries(values)) {
      this.tensors.get(name)?.set(value, texts[name]);
      this.given.get(name)?.set(value);
    }
  }

  async ready() {
    await Promise.all([...this.tensors.values()].map(({ready}) => ready));
  }

  // Returns the name of a field whose text is not JSON, or undefined.
  invalid() {
    return [...this.tensors.values()].find((tensor) => tensor.invalid)?.label;
  }

  // Returns the inputs and arguments that must have a value before the program can run, but have none.
  missing() {
    return [...[...this.tensors].filter(([, tensor]) => tensor.isEmpty()), ...this.missingArguments()].map(([name]) => name);
  }

  missingArguments() {
    return [...this.given].filter(([, argument]) => argument.spec.required && argument.isEmpty());
  }

  // Returns the values of the inputs that have one, in text and Blobs: {name: parts}.
  values() {
    return Object.fromEntries([...this.tensors].filter(([, tensor]) => !tensor.isEmpty()).map(([name, tensor]) => [name, tensor.requestParts()]));
  }

  // Returns the values of the arguments that have one, as text.
  givenTexts() {
    return Object.fromEntries([...this.given].filter(([, argument]) => !argument.isEmpty()).map(([name, argument]) => [name, argument.requestText()]));
  }

  // Returns the size for each letter: from the values, or else from its field.
  letterSizes() {
    const known = sizesOf(this.program, Object.fromEntries([...this.tensors].map(([name, {shape}]) => [name, shape])));
    const fields = lettersOf(this.program).map((letter) => [letter, Number(this.sizes.get(`size ${letter}`).control.value.trim() || usualSize)]);
    return {...Object.fromEntries(fields), ...known};
  }

  blame(name, sentence) {
    (this.tensors.get(name) ?? this.given.get(name))?.blame(sentence);
  }

  forgive() {
    for (const field of [...this.tensors.values(), ...this.given.values()]) field.blame(null);
  }
}
