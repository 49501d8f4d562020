// Requests to the daemon that served this page. Nothing else is ever requested.

import * as json from "./json.js";

let token = "";
const listeners = new Set();

export function setToken(text) {
  token = text;
}

export function hasToken() {
  return token !== "";
}

export function onUnauthorized(listener) {
  listeners.add(listener);
}

// What the daemon refused, with the members of its problem document.
export class Problem extends Error {
  constructor(status, document, requestId) {
    super(document.detail ?? document.error ?? document.title ?? `status ${status}`);
    this.status = status;
    this.document = document;
    this.requestId = document.request_id ?? requestId;
  }
}

// No reply at all.
export class Unreachable extends Error {}

function problemOf(reply, text) {
  let document;
  try {
    document = json.parse(text);
  } catch {
    document = {detail: text || reply.statusText};
  }
  return new Problem(reply.status, document, reply.headers.get("X-Request-Id"));
}

async function send(method, path, {body, headers = {}, signal} = {}) {
  const all = {...headers};
  if (token) all.Authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(path, {method, body, headers: all, signal, cache: "no-store", credentials: "omit", redirect: "error"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("the server does not answer");
  }
  if (reply.status === 401) for (const listener of listeners) listener();
  return reply;
}

// The reply of a request, its body as text: {status, headers, text, ms}. Throws Problem and Unreachable.
export async function request(method, path, options) {
  const begun = performance.now();
  const reply = await send(method, path, options);
  const text = await reply.text();
  const took = performance.now() - begun;
  if (!reply.ok) throw problemOf(reply, text);
  return {status: reply.status, headers: reply.headers, text, ms: took};
}

export async function getJson(path, options) {
  return json.parse((await request("GET", path, options)).text);
}

export async function postJson(path, value, options = {}) {
  const headers = {"Content-Type": "application/json", ...options.headers};
  return request("POST", path, {...options, headers, body: typeof value === "string" ? value : json.stringify(value)});
}

export async function getBytes(path, options) {
  const reply = await send("GET", path, options);
  if (!reply.ok) throw problemOf(reply, await reply.text());
  return new Uint8Array(await reply.arrayBuffer());
}

// Uploads with progress, which fetch cannot report.
export function upload(path, body, {type, onprogress, headers = {}} = {}) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();
    sender.open("PUT", path);
    if (type) sender.setRequestHeader("Content-Type", type);
    if (token) sender.setRequestHeader("Authorization", `Bearer ${token}`);
    for (const [name, value] of Object.entries(headers)) sender.setRequestHeader(name, value);
    sender.upload.onprogress = (event) => onprogress?.(event.loaded, event.total);
    sender.onerror = () => reject(new Unreachable("the server does not answer"));
    sender.onload = () => {
      if (sender.status >= 200 && sender.status < 300) return resolve(json.parse(sender.responseText));
      const headersOf = {status: sender.status, statusText: sender.statusText, headers: {get: (name) => sender.getResponseHeader(name)}};
      reject(problemOf(headersOf, sender.responseText));
    };
    sender.send(body);
  });
}
