// Starts an evaluation with queries from a file, or with documents of the collection.
import { html, useState } from "./lib.js";
import { pathOf, post } from "./api.js";
import { plural } from "./format.js";
import { useJob } from "./jobs.js";
import { Failure, Field, Panel, Progress, Segments, Select } from "./parts.js";

const PAGE = 1000;
const READ = 50_000;
const NEAREST = 10;

/** Labels in a field of a payload, as the service reads them. */
function labelsOf(payload, field) {
  const value = payload[field] ?? (field === "label" ? payload.labels : undefined);
  return (Array.isArray(value) ? value : [value]).filter((label) => typeof label === "string");
}

/** At most `size` documents, labelled if there is a field, drawn at random (algorithm R) from the first fifty thousand. */
async function sample(collection, field, size, onProgress) {
  const queries = [];
  let seen = 0;
  let read = 0;
  let cursor;
  do {
    const page = await post(`${pathOf(collection)}/documents:scroll`, { limit: PAGE, cursor });
    for (const document of page.documents) {
      const labels = field === null ? undefined : labelsOf(document.payload, field);
      if (labels?.length === 0) continue;
      const content = document.text ? { text: document.text } : document.vector ? { vector: document.vector } : { code: document.code };
      const place = seen < size ? seen : Math.floor(Math.random() * (seen + 1));
      if (place < size) queries[place] = { id: document.id, ...content, labels };
      seen += 1;
    }
    read += page.documents.length;
    cursor = page.next_cursor;
    onProgress(read);
  } while (cursor && read < READ);
  if (!queries.length) throw new Error(field === null ? "There is no document." : `No document has a label in the field “${field}”.`);
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
  const [metrics, setMetrics] = useState(null);
  const [lines, setLines] = useState("");
  const [relevant, setRelevant] = useState("label");
  const byNearness = relevant === "nearest";
  const [choosing, setChoosing] = useState(null);
  const usual = byNearness ? "Recall@100" : "P@100, mAP@100";
  const { busy, job, error, run } = useJob((done) => onDone(done.id));
  const begin = async () => {
    try {
      setChoosing("Choosing queries");
      const limit = Math.min(Number(size) || 200, limits.max_queries);
      const queries = source === "sample"
        ? await sample(collection, byNearness ? null : field, limit, (read) => setChoosing(`${plural(read, "document")} read`))
        : parseLines(lines);
      const named = (metrics ?? usual).split(",").map((name) => name.trim()).filter(Boolean);
      const body = { queries, metrics: named, label_field: field, exclude_self: source === "sample", nearest: byNearness ? NEAREST : undefined };
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
  return html`<${Panel} title=${`Evaluate ${collection}`} what=${byNearness ? `Without labels: relevant are the ${NEAREST} documents nearest to the query, by their words or, if all have them, vectors.` : "A document is relevant if it shares a label with the query."}>
    <form class="inside stack" onSubmit=${start}>
      <${Segments} label="Source of the queries" value=${source} onChange=${setSource} options=${[["sample", "Documents of the collection"], ["file", "Your own queries"]]} />
      ${source === "file" && html`<${Field} label="JSON lines" hint="each with a text, vector or code, and a label or labels">
          <textarea rows="4" spellcheck=${false} value=${lines} onInput=${(event) => setLines(event.currentTarget.value)} placeholder='{"id": "q1", "text": "…", "label": "…"}'></textarea><//>
        <${Field} label="Or a file"><input type="file" accept=".jsonl,.json,.txt" onChange=${read} /><//>`}
      <div class="row">
        <${Field} label="Relevant"><${Select} value=${relevant} onChange=${setRelevant} options=${[["label", "with a label of the query"], ["nearest", "nearest to the query"]]} /><//>
        <${Field} label="Label field"><input size="10" value=${field} onInput=${(event) => setField(event.currentTarget.value)} /><//>
        ${source === "sample" && html`<${Field} label="Queries"><input type="number" min="1" max=${limits.max_queries} value=${size} onInput=${(event) => setSize(event.currentTarget.value)} /><//>`}
        <${Field} label="Metrics"><input size="24" value=${metrics ?? usual} onInput=${(event) => setMetrics(event.currentTarget.value)} /><//>
        <button class="button primary" type="submit" disabled=${busy || (source === "file" && !lines.trim())}>Run</button>
        ${choosing && html`<span class="what" role="status">${choosing} …</span>`}
        ${job && html`<${Progress} job=${job} />`}
      </div>
      <${Failure} error=${error} />
    </form>
  <//>`;
}
