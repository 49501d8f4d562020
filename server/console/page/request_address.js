// Stores the request of a view in the address: as text, or packed if it is long.

import {notify} from "./dom.js";
import {note} from "./state.js";

const mostPlain = 6000, mostPacked = 24000; // characters as text; bytes after packing
const mostText = 1 << 20; // characters; longer requests are not packed
const pauseMs = 300; // after a change, before packing

const through = async (content, stream) => new Uint8Array(await new Response(new Blob([content]).stream().pipeThrough(stream)).arrayBuffer());

async function pack(text) {
  if (text.length > mostText || typeof CompressionStream === "undefined") return null;
  const packed = await through(text, new CompressionStream("deflate-raw"));
  return packed.length > mostPacked ? null : btoa(String.fromCharCode(...packed)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  return new TextDecoder().decode(await through(packed, new DecompressionStream("deflate-raw")));
}

let latest = null, isTold = false;

// `shown`: the other parameters of the address; `body`: text, or a Blob, which is too long to store; isOpen(): true while the view is shown.
export async function noteRequest(view, shown, body, isOpen) {
  const mine = latest = {};
  if (!isOpen()) return;
  const isPlain = body.length <= mostPlain;
  note(view, {...shown, request: isPlain ? body : ""});
  if (isPlain) {
    isTold = false;
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  if (mine !== latest) return;
  const packed = typeof body === "string" ? await pack(body) : null;
  if (mine !== latest || !isOpen()) return;
  if (packed) note(view, {...shown, packed});
  else if (!isTold) notify("The request is too long for the address. A reload or a link to this page does not restore it.");
  isTold = !packed;
}

// Returns the request in the address as text, or null if there is none.
export async function requestIn(parameters) {
  const packed = parameters.get("packed");
  if (!packed) return parameters.get("request");
  try {
    return await unpack(packed);
  } catch {
    return "{"; // not valid JSON, so the page reports it as a bad request
  }
}
