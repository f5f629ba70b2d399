// A new collection from a file: what is found in it, its documents indexed, and codes learned from them.
import { html, useEffect, useRef, useState } from "./lib.js";
import { pathOf, post, put, remove } from "./api.js";
import { count, plural, short, size } from "./format.js";
import { useJob } from "./jobs.js";
import { Failure, Field, Note, Panel, Progress, Select, Waiting, classes, useId, useLoaded } from "./parts.js";

const ENDINGS = [".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".md"];
const OCTETS = "application/octet-stream";
// Fewer different documents teach nothing.
const FEWEST = 50;

/** A name made from that of a file; letters lose their accents. */
function nameOf(file) {
  const stem = file.name.split(".")[0].normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return stem.replace(/[^a-z0-9_-]+/g, "-").replace(/^[-_]+|[-_]+$/g, "") || "documents";
}

function queryOf(file, { text, label }) {
  const query = new URLSearchParams({ filename: file.name });
  if (text) query.set("text_field", text);
  if (label) query.set("label_field", label);
  return query;
}

function Found({ found, fields, onFields }) {
  const names = found.fields.map((name) => [name, name]);
  const labels = found.labels ? `${found.label_field}: ${plural(found.labels, "label")}` : found.label_candidates.length ? `none; it may be ${found.label_candidates.slice(0, 3).join(", ")}` : "none";
  const facts = [
    ["Documents", `${count(found.documents)}${found.skipped ? `; ${plural(found.skipped, "line")} skipped` : ""}${found.without_text ? `; ${count(found.without_text)} without text left out` : ""}`],
    ["Repeats", found.repeats ? `${plural(found.repeats, "document")} with the text of another` : "none"],
    ["Ids", found.id_field ?? "numbered by line"],
    ["Language", found.language === "none" ? "not known" : found.language],
    ["Codes", found.codes],
  ];
  return html`
    <dl class="found">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${found.first_skipped && html`<${Note} kind="warn">${found.first_skipped}<//>`}
    ${names.length > 1 && html`<div class="row">
      <${Field} label="Text"><${Select} value=${fields.text} onChange=${(text) => onFields({ ...fields, text })} options=${[["", `found: ${found.text_fields.join(" + ")}`], ...names]} /><//>
      <${Field} label="Label"><${Select} value=${fields.label} onChange=${(label) => onFields({ ...fields, label })} options=${[["", `found: ${labels}`], ...names]} /><//>
    </div>`}
    <ul class="documents" tabindex="0" aria-label="First documents">${found.sample.map((one) => html`<li key=${one.id}><span class="id">${one.id}</span> <span class="what">${one.labels.join(", ")}</span><div>${short(one.text ?? "", 160)}</div></li>`)}</ul>`;
}

/** What was learned, in a sentence. */
function Learned({ job, name }) {
  const { state, trial } = job.result;
  return state === "live"
    ? html`<${Note} kind="good"><b>${name}</b> is searched by the codes that were learned: ${trial.sentence}.<//>`
    : html`<${Note}><b>${name}</b> keeps its codes, as learned ones do not find enough more: ${trial.sentence}.<//>`;
}

function Creation({ file, taken, link, reload, onChoose }) {
  const [fields, setFields] = useState({ text: "", label: "" });
  const [name, setName] = useState(nameOf(file));
  const [learns, setLearns] = useState(true);
  const [indexed, setIndexed] = useState(null);
  const [learned, setLearned] = useState(null);
  const { data: found, error: unread, loading } = useLoaded(
    (signal) => post(`v1/files:survey?${queryOf(file, fields)}`, file, { type: OCTETS, signal }), [file, fields.text, fields.label],
  );
  const learning = useJob((job) => { setLearned(job); reload(); });
  const first = `${name.trim()}-1`;
  const canLearn = found && found.documents - found.repeats >= FEWEST;
  const indexing = useJob((job) => {
    setIndexed(job);
    reload();
    if (learns && canLearn) learning.run(() => post(`${pathOf(first)}/train`, { for_search: true, compare: true, into: `${name.trim()}-2`, alias: name.trim(), label_field: "label" }));
  });
  const begin = async () => {
    const settings = { encoder: found.has_codes ? undefined : null, passages: found.passages ? "auto" : undefined };
    await put(pathOf(first), settings, { createOnly: true }); // what another has made is not removed below
    try {
      const job = await post(`${pathOf(first)}/documents:file?${queryOf(file, fields)}`, file, { type: OCTETS });
      await post("v1/aliases", { actions: [{ add: { alias: name.trim(), collection: first } }] });
      return job;
    } catch (problem) {
      await remove(pathOf(first)).catch(() => {}); // the problem that is shown came first
      throw problem;
    }
  };
  const create = (event) => {
    event.preventDefault();
    indexing.run(begin);
  };
  const clash = [name.trim(), first].find((each) => taken.includes(each));
  const begun = indexing.busy || indexed;
  return html`<div class="stack">
    <p><b class="break">${file.name}</b> <span class="what">${size(file.size)}</span></p>
    <${Failure} error=${unread} />
    ${loading && !found && html`<${Waiting} what="Looking at the file" />`}
    ${found && html`<${Found} found=${found} fields=${fields} onFields=${setFields} />
      <form class="row" onSubmit=${create}>
        <${Field} label="Name"><input size="20" value=${name} disabled=${begun} onInput=${(event) => setName(event.currentTarget.value)} /><//>
        <label class="check"><input type="checkbox" checked=${learns && canLearn} disabled=${begun || !canLearn} onChange=${(event) => setLearns(event.currentTarget.checked)} /> then learn codes from the documents${canLearn ? "" : `, which takes ${FEWEST} different ones`}</label>
        <button class="button primary" type="submit" disabled=${begun || !name.trim() || !found.documents || loading || clash}>Create the collection</button>
        ${indexing.busy && (indexing.job ? html`<${Progress} job=${indexing.job} />` : html`<${Waiting} what="Sending the file" />`)}
      </form>`}
    ${clash && !begun && html`<${Note} kind="warn">There is ${clash} already. Choose another name.<//>`}
    <${Failure} error=${indexing.error} />
    ${indexed && html`<div role="status" class="stack"><${Note} kind="good">${plural(indexed.result.written, "document")} indexed${indexed.result.failed ? `, ${count(indexed.result.failed)} refused` : ""}. <a href=${link("search", { collection: name.trim() })}>Search ${name.trim()}</a><//>
      ${learning.busy && html`<div class="row"><span>Learning codes; searches are answered meanwhile.</span>${learning.job && html`<${Progress} job=${learning.job} />`}</div>`}
      ${learned && html`<${Learned} job=${learned} name=${name.trim()} />`}</div>`}
    <${Failure} error=${learning.error} />
    ${indexed && !learning.busy && html`<div><button type="button" class="button small" onClick=${() => onChoose(null)}>Another file</button></div>`}
  </div>`;
}

/** A place to drop a file, or to choose one; a file that is dropped anywhere on the page counts. */
export function NewCollection({ collections, aliases, link, reload }) {
  const [file, setFile] = useState(null);
  const [over, setOver] = useState(false);
  const depth = useRef(0);
  const input = useId("file");
  const taken = [...collections.map((each) => each.name), ...Object.keys(aliases)];
  useEffect(() => {
    const hasFile = (event) => [...event.dataTransfer.types].includes("Files");
    const handlers = {
      dragenter: (event) => { if (hasFile(event)) { depth.current += 1; setOver(true); } },
      dragleave: () => { depth.current = Math.max(0, depth.current - 1); if (!depth.current) setOver(false); },
      dragover: (event) => hasFile(event) && event.preventDefault(),
      drop: (event) => {
        if (!hasFile(event)) return;
        event.preventDefault();
        depth.current = 0;
        setOver(false);
        setFile((before) => before ?? event.dataTransfer.files[0] ?? null);
      },
    };
    for (const [name, handler] of Object.entries(handlers)) addEventListener(name, handler);
    return () => { for (const [name, handler] of Object.entries(handlers)) removeEventListener(name, handler); };
  }, []);
  return html`<${Panel} title="New collection" what=${file ? null : "From a file of texts: fields, labels and language are found, and the documents can be searched within seconds."}>
    <div class="inside">${file
      ? html`<${Creation} key=${file} file=${file} taken=${taken} link=${link} reload=${reload} onChoose=${setFile} />`
      : html`<label class=${classes("drop", over && "over")} for=${input}><b>Drop a file here</b>, or <span class="choose">choose one</span> <span class="what">${ENDINGS.join(" ")}</span>
          <input id=${input} type="file" class="visually-hidden" accept=${ENDINGS.join(",")} onChange=${(event) => setFile(event.currentTarget.files[0] ?? null)} /></label>`}</div>
  <//>`;
}
