// An agent behind HTTP, in another language and with a state: it reads its prompt once, when it is started.
// Usage: node http_agent.js PORT; ATK_TREE says which content it was started from. Standard library only.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const crypto = require("node:crypto");

const prompt = fs.readFileSync("prompt.txt", "utf8");
const rules = prompt.trim().split("\n").map((line) => line.split(" -> "));
const tree = process.env.ATK_TREE || "unknown";
const loading = [{
  component_id: "prompt",
  state: "loaded",
  fingerprint: crypto.createHash("sha256").update(prompt).digest("hex"),
  resolved_path: fs.realpathSync("prompt.txt"),
}];

function answer(text) {
  const found = rules.find(([word]) => text.toLowerCase().includes(word));
  return { text: found ? found[1] : "other", loading, metrics: { tool_calls: 0, cost: 0.25 }, tree };
}

http.createServer((request, response) => {
  const say = (status, value) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(value));
  };
  if (request.method === "GET") {
    if (request.url === "/tree") {
      response.end(tree + "\n");
    } else {
      say(request.url === "/ready" ? 200 : 404, {});
    }
    return;
  }
  let body = "";
  request.on("data", (chunk) => { body += chunk; });
  request.on("end", () => say(200, answer(String(JSON.parse(body).input))));
}).listen(Number(process.argv[2]), "127.0.0.1");
