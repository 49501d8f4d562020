// The request of the form as code, always what would be sent.

const quoteShell = (text) => `'${text.replace(/'/g, "'\\''")}'`;

function curl(origin, path, body, token) {
  const bearer = token ? " \\\n  -H \"Authorization: Bearer $TOKEN\"" : "";
  return `curl -s ${origin}${path}${bearer} \\\n  -d ${quoteShell(body)}`;
}

function python(origin, path, body, token) {
  return `import json, urllib.request

body = ${JSON.stringify(body)}
request = urllib.request.Request("${origin}${path}", body.encode()${token ? ', {"Authorization": "Bearer " + token}' : ""})
print(json.load(urllib.request.urlopen(request)))`;
}

function javascript(origin, path, body, token) {
  return `const reply = await fetch("${origin}${path}", {
  method: "POST",
  headers: {"Content-Type": "application/json"${token ? ', Authorization: `Bearer ${token}`' : ""}},
  body: ${JSON.stringify(body)},
});
console.log(await reply.json());`;
}

export const languages = [["curl", curl], ["Python", python], ["JavaScript", javascript]];
