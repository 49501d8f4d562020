// The request of the form as code, always what would be sent. A long body is not in the code, but in a file beside it; a token is not, but
// in the environment variable TOKEN.

export const bodyFile = "request.json";

const quoteShell = (text) => `'${text.replace(/'/g, "'\\''")}'`;

// `body`: null if it is in the file.
function curl(origin, path, body, token) {
  const bearer = token ? " \\\n  -H \"Authorization: Bearer $TOKEN\"" : "";
  return `curl -s ${origin}${path}${bearer} \\\n  -d ${body === null ? `@${bodyFile}` : quoteShell(body)}`;
}

function python(origin, path, body, token) {
  return `import json, ${token ? "os, " : ""}urllib.request

body = ${body === null ? `open("${bodyFile}", "rb").read()` : `${JSON.stringify(body)}.encode()`}
request = urllib.request.Request("${origin}${path}", body${token ? ', {"Authorization": "Bearer " + os.environ["TOKEN"]}' : ""})
print(json.load(urllib.request.urlopen(request)))`;
}

// Prints the text: an object would have integers of 64 bits rounded.
function javascript(origin, path, body, token) {
  return `const reply = await fetch("${origin}${path}", {
  method: "POST",
  headers: {"Content-Type": "application/json"${token ? ', Authorization: `Bearer ${process.env.TOKEN}`' : ""}},
  body: ${body === null ? `await (await import("node:fs/promises")).readFile("${bodyFile}")` : JSON.stringify(body)},
});
console.log(await reply.text());`;
}

export const languages = [["curl", curl], ["Python", python], ["JavaScript", javascript]];
