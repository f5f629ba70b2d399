// A search as a curl command or Python code.
import { html, useState } from "./lib.js";
import { address, hasKey } from "./api.js";
import { Copy, Panel, Segments } from "./parts.js";

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** What a body is sent to: a recommendation has examples in place of a query. */
export const operationOf = (body) => (body.positive ? "recommend" : "search");

export function asCurl(collection, body) {
  const lines = [`curl -s ${quote(`${address}/v1/collections/${encodeURIComponent(collection)}/${operationOf(body)}`)}`];
  lines.push("-H 'content-type: application/json'");
  if (hasKey()) lines.push('-H "authorization: Bearer $HUMMINGBIT_KEY"');
  lines.push(`-d ${quote(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function literal(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${literal(inner)}`).join(", ")}}`;
  return JSON.stringify(value);
}

export function asPython(collection, body) {
  const { text, positive, ...options } = body;
  const args = [literal(collection), ...[text, positive].filter((value) => value !== undefined).map(literal)];
  for (const [name, value] of Object.entries(options)) args.push(`${name}=${literal(value)}`);
  const key = hasKey() ? ', key=os.environ["HUMMINGBIT_KEY"]' : "";
  return [
    ...(hasKey() ? ["import os", ""] : []),
    "from hummingbit import Client",
    "",
    `with Client(${literal(address)}${key}) as client:`,
    `    found = client.${operationOf(body)}(\n        ${args.join(",\n        ")},\n    )`,
    ...(body.group_by
      ? ['    for group in found["groups"]:', '        print(group["id"], [hit["id"] for hit in group["hits"]])']
      : ['    for hit in found["hits"]:', '        print(hit["distance"], hit["id"])']),
  ].join("\n");
}

export function Snippets({ collection, body }) {
  const [language, setLanguage] = useState("curl");
  const text = language === "curl" ? asCurl(collection, body) : asPython(collection, body);
  return html`<${Panel} title="This search as code" actions=${html`<${Copy} text=${text} />`}>
    <div class="inside stack">
      <${Segments} label="Language" value=${language} options=${[["curl", "curl"], ["python", "Python"]]} onChange=${setLanguage} />
      <pre class="code" tabindex="0" aria-label="Code of the request">${text}</pre>
    </div>
  <//>`;
}
