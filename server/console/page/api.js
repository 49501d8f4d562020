// Requests to the daemon that served this page. The page sends no other requests.

import * as json from "./json.js";

let token = "";
const listeners = new Set();

const tokenListeners = new Set();

export function setToken(text) {
  token = text;
  for (const listener of tokenListeners) listener();
}

export function onToken(listener) {
  tokenListeners.add(listener);
}

export function hasToken() {
  return token !== "";
}

export function onUnauthorized(listener) {
  listeners.add(listener);
}

// An error reply from the daemon, with the members of its problem document.
export class Problem extends Error {
  constructor(status, document, requestId) {
    super(document.detail ?? document.error ?? document.title ?? `status ${status}`);
    this.status = status;
    this.document = document;
    this.requestId = document.request_id ?? requestId;
  }
}

// Thrown if no reply arrived.
export class Unreachable extends Error {}

// Ignores a 401 reply to a request that did not carry the current token.
function tellUnauthorized(sent) {
  if (sent === token) for (const listener of listeners) listener();
}

function problemOf(reply, text, sent) {
  let document;
  try {
    document = json.parse(text);
  } catch {
    document = {detail: text || reply.statusText};
  }
  // The server's text asks for a header. The page sends that header; the user only enters the token.
  if (reply.status === 401) document.detail = `${sent ? "The server does not know this token" : "This server requires a token"}; enter one with the "Token" button at the top.`;
  return new Problem(reply.status, document, reply.headers.get("X-Request-Id"));
}

async function send(method, path, sent, {body, headers = {}, signal} = {}) {
  const all = {...headers};
  if (sent) all.Authorization = `Bearer ${sent}`;
  let reply;
  try {
    reply = await fetch(path, {method, body, headers: all, signal, cache: "no-store", credentials: "omit", redirect: "error"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("the server does not answer");
  }
  if (reply.status === 401) tellUnauthorized(sent);
  return reply;
}

// Sends a request. Returns the reply with its body as bytes: {status, headers, buffer, ms}. Throws Problem or Unreachable.
async function requestBytes(method, path, options) {
  const begun = performance.now(), sent = token;
  const reply = await send(method, path, sent, options);
  const buffer = await reply.arrayBuffer();
  const took = performance.now() - begun;
  if (!reply.ok) throw problemOf(reply, new TextDecoder().decode(buffer), sent);
  return {status: reply.status, headers: reply.headers, buffer, ms: took};
}

// Like requestBytes, but returns the body as text in place of `buffer`.
export async function request(method, path, options) {
  const {buffer, ...reply} = await requestBytes(method, path, options);
  return {...reply, text: new TextDecoder().decode(buffer)};
}

export async function getJson(path, options) {
  return json.parse((await request("GET", path, options)).text);
}

const asJson = (value, options) =>
  ({...options, headers: {"Content-Type": "application/json", ...options.headers}, body: typeof value === "string" || value instanceof Blob ? value : json.stringify(value)});

export async function postJson(path, value, options = {}) {
  return request("POST", path, asJson(value, options));
}

// Like postJson, but returns the reply's body as bytes in `buffer`.
export async function postForBytes(path, value, options = {}) {
  return requestBytes("POST", path, asJson(value, options));
}

// Uploads with progress reports, which fetch does not support.
export function upload(path, body, {type, onprogress, headers = {}} = {}) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest(), sent = token;
    sender.open("PUT", path);
    if (type) sender.setRequestHeader("Content-Type", type);
    if (sent) sender.setRequestHeader("Authorization", `Bearer ${sent}`);
    for (const [name, value] of Object.entries(headers)) sender.setRequestHeader(name, value);
    sender.upload.onprogress = (event) => onprogress?.(event.loaded, event.total);
    sender.onerror = () => reject(new Unreachable("the server does not answer"));
    sender.onload = () => {
      if (sender.status === 401) tellUnauthorized(sent);
      if (sender.status >= 200 && sender.status < 300) {
        try {
          return resolve(json.parse(sender.responseText));
        } catch (error) {
          return reject(error);
        }
      }
      const headersOf = {status: sender.status, statusText: sender.statusText, headers: {get: (name) => sender.getResponseHeader(name)}};
      reject(problemOf(headersOf, sender.responseText, sent));
    };
    sender.send(body);
  });
}
