// Shows the request of the form as code, exactly as it would be sent. A long body goes into a file next to the code, and the token
// into the environment variable TOKEN.

export const bodyFile = "request.json";

const quoteShell = (text) => `'${text.replace(/'/g, "'\\''")}'`;

// `body`: null if the body is in the file.
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

// Prints text, because an object would round 64-bit integers.
function javascript(origin, path, body, token) {
  return `const reply = await fetch("${origin}${path}", {
  method: "POST",
  headers: {"Content-Type": "application/json"${token ? ', Authorization: `Bearer ${process.env.TOKEN}`' : ""}},
  body: ${body === null ? `await (await import("node:fs/promises")).readFile("${bodyFile}")` : JSON.stringify(body)},
});
console.log(await reply.text());`;
}

export const languages = [["curl", curl], ["Python", python], ["JavaScript", javascript]];
