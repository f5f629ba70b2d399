// Starts an evaluation with queries from a file, or with documents of the collection.
import { html, useState } from "./lib.js";
import { pathOf, post } from "./api.js";
import { plural } from "./format.js";
import { useJob } from "./jobs.js";
import { Failure, Field, Panel, Progress, Segments } from "./parts.js";

const PAGE = 1000;
const READ = 50_000;

/** Labels in a field of a payload, as the service reads them. */
function labelsOf(payload, field) {
  const value = payload[field] ?? (field === "label" ? payload.labels : undefined);
  return (Array.isArray(value) ? value : [value]).filter((label) => typeof label === "string");
}

/** At most `size` labelled documents, drawn at random (algorithm R) from the first fifty thousand. */
async function sample(collection, field, size, onProgress) {
  const queries = [];
  let seen = 0;
  let read = 0;
  let cursor;
  do {
    const page = await post(`${pathOf(collection)}/documents:scroll`, { limit: PAGE, cursor });
    for (const document of page.documents) {
      const labels = labelsOf(document.payload, field);
      if (!labels.length) continue;
      const query = { id: document.id, code: document.code, labels };
      const place = seen < size ? seen : Math.floor(Math.random() * (seen + 1));
      if (place < size) queries[place] = document.text ? { id: document.id, text: document.text, labels } : query;
      seen += 1;
    }
    read += page.documents.length;
    cursor = page.next_cursor;
    onProgress(read);
  } while (cursor && read < READ);
  if (!queries.length) throw new Error(`No document has a label in the field “${field}”.`);
  return queries;
}

/** Queries of JSON lines; the error names a line that is not JSON. */
function parseLines(text) {
  return text.split("\n").flatMap((line, index) => {
    if (!line.trim()) return [];
    try {
      const { id, text: words, vector, code, label, labels } = JSON.parse(line);
      return [JSON.parse(JSON.stringify({ id: id === undefined ? undefined : String(id), text: words, vector, code, label, labels }))];
    } catch {
      throw new Error(`Line ${index + 1} is not JSON: ${line.slice(0, 80)}`);
    }
  });
}

export function Runner({ collection, limits, onDone }) {
  const [source, setSource] = useState("sample");
  const [field, setField] = useState("label");
  const [size, setSize] = useState("200");
  const [metrics, setMetrics] = useState("P@100, mAP@100");
  const [lines, setLines] = useState("");
  const [choosing, setChoosing] = useState(null);
  const { busy, job, error, run } = useJob((done) => onDone(done.id));
  const begin = async () => {
    try {
      setChoosing("Choosing queries");
      const limit = Math.min(Number(size) || 200, limits.max_queries);
      const queries = source === "sample"
        ? await sample(collection, field, limit, (read) => setChoosing(`${plural(read, "document")} read`))
        : parseLines(lines);
      const body = { queries, metrics: metrics.split(",").map((name) => name.trim()).filter(Boolean), label_field: field, exclude_self: source === "sample" };
      return await post(`${pathOf(collection)}/evaluate`, body, { prefer: "respond-async" });
    } finally {
      setChoosing(null);
    }
  };
  const start = (event) => {
    event.preventDefault();
    run(begin);
  };
  const read = async (event) => setLines((await event.currentTarget.files[0]?.text()) ?? "");
  return html`<${Panel} title=${`Evaluate ${collection}`} what="A document is relevant if it shares a label with the query.">
    <form class="inside stack" onSubmit=${start}>
      <${Segments} label="Source of the queries" value=${source} onChange=${setSource} options=${[["sample", "Documents of the collection"], ["file", "Your own queries"]]} />
      ${source === "file" && html`<${Field} label="JSON lines" hint="each with a text, vector or code, and a label or labels">
          <textarea rows="4" spellcheck=${false} value=${lines} onInput=${(event) => setLines(event.currentTarget.value)} placeholder='{"id": "q1", "text": "…", "label": "…"}'></textarea><//>
        <${Field} label="Or a file"><input type="file" accept=".jsonl,.json,.txt" onChange=${read} /><//>`}
      <div class="row">
        <${Field} label="Label field"><input size="10" value=${field} onInput=${(event) => setField(event.currentTarget.value)} /><//>
        ${source === "sample" && html`<${Field} label="Queries"><input type="number" min="1" max=${limits.max_queries} value=${size} onInput=${(event) => setSize(event.currentTarget.value)} /><//>`}
        <${Field} label="Metrics"><input size="24" value=${metrics} onInput=${(event) => setMetrics(event.currentTarget.value)} /><//>
        <button class="button primary" type="submit" disabled=${busy || (source === "file" && !lines.trim())}>Run</button>
        ${choosing && html`<span class="what" role="status">${choosing} …</span>`}
        ${job && html`<${Progress} job=${job} />`}
      </div>
      <${Failure} error=${error} />
    </form>
  <//>`;
}
