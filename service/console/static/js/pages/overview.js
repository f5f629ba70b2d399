// The contents of the data folder, and its jobs.
import { html, useEffect, useState } from "../lib.js";
import { get, pathOf, post } from "../api.js";
import { ago, count, displayValue, figure, plural, short, size } from "../format.js";
import { NewCollection } from "../newcollection.js";
import { Button, Empty, Failure, Note, Panel, Progress, Table, Tag, Waiting, useLoaded } from "../parts.js";

const KINDS = {
  bulk: "Bulk write", evaluation: "Evaluation", reindex: "Reindexing", snapshot: "Snapshot",
  upload: "Upload of a snapshot", restore: "Restoring", verify: "Verification", compact: "Compaction",
  map: "Map", duplicates: "Near-duplicates", retrain: "Retraining", train: "Training",
};
const STATES = { done: "good", failed: "bad", running: "warn", queued: "", cancelled: "" };

async function readiness() {
  try {
    return await get("readyz");
  } catch (problem) {
    if (problem.status === 401) throw problem;
    return { status: problem.message };
  }
}

/** The statistics of each collection, one after another: those of a large one take a while. */
function useDetails(collections) {
  const [details, setDetails] = useState({});
  const names = collections.map((collection) => `${collection.name}:${collection.generation}`).join();
  useEffect(() => {
    const stop = new AbortController();
    (async () => {
      for (const { name } of collections) {
        const stats = await get(`${pathOf(name)}/stats`, { signal: stop.signal }).catch(() => null);
        if (stop.signal.aborted) return;
        setDetails((before) => ({ ...before, [name]: stats }));
      }
    })();
    return () => stop.abort();
  }, [names]);
  return details;
}

function useJobs() {
  const [jobs, setJobs] = useState(null);
  const [refreshes, setRefreshes] = useState(0);
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    const ask = async () => {
      const page = await get("v1/jobs?limit=25").catch(() => null);
      if (stopped) return;
      if (page) setJobs(page.jobs);
      const busy = page?.jobs.some((job) => !job.finished);
      timer = setTimeout(ask, busy ? 700 : 6000);
    };
    ask();
    return () => { stopped = true; clearTimeout(timer); };
  }, [refreshes]);
  return [jobs, () => setRefreshes((value) => value + 1)];
}

function Health({ name, detail, unwritable }) {
  if (unwritable?.[name]) return html`<${Tag} kind="bad" title=${unwritable[name].join(" ")}>cannot be written<//>`;
  if (detail === undefined) return html`<${Tag}>…<//>`;
  if (detail === null) return html`<${Tag} kind="warn">no statistics<//>`;
  if (detail.problems.length) return html`<${Tag} kind="bad" title=${detail.problems.join(" ")}>${plural(detail.problems.length, "problem")}<//>`;
  if (!detail.documents) return html`<${Tag}>empty<//>`;
  if (detail.largest_share > 0.2 && detail.documents > 100)
    return html`<${Tag} kind="warn" title="More than a fifth of the documents have the same code">collapsed<//>`;
  if (detail.dead_bits.length && detail.documents > 100)
    return html`<${Tag} kind="warn">${plural(detail.dead_bits.length, "dead bit")}<//>`;
  return html`<${Tag} kind="good">good<//>`;
}

function Collections({ listed, unwritable, link }) {
  const details = useDetails(listed.collections);
  const columns = [
    { title: "Name", class: "name", show: (collection) => html`<a href=${link("search", { collection: collection.name })}>${collection.name}</a>` },
    { title: "Documents", number: true, show: (collection) => count(collection.documents) },
    { title: "Bits", number: true, show: (collection) => collection.n_bits },
    { title: "Distinct codes", number: true, show: (collection) => count(details[collection.name]?.distinct_codes) },
    { title: "Encoder", show: (collection) => collection.encoder?.name ?? (collection.n_bits ? "none; documents bring codes" : "none; searched by words") },
    { title: "Ranking", show: (collection) => collection.ranking },
    { title: "Engine", show: (collection) => html`<span title=${details[collection.name]?.engine_reason}>${details[collection.name]?.engine ?? collection.engine_setting}</span>` },
    { title: "Generation", number: true, show: (collection) => count(collection.generation) },
    { title: "Size", number: true, show: (collection) => size(details[collection.name]?.bytes_on_disk) },
    { title: "Health", show: (collection) => html`<${Health} name=${collection.name} detail=${details[collection.name]} unwritable=${unwritable} />` },
  ];
  return html`<${Panel} title="Collections">
    ${listed.unavailable.map((collection) => html`<div class="inside"><${Note} kind="bad"><b>${collection.name}</b> cannot be opened: ${collection.reason}<//></div>`)}
    <${Table} stacks label="Collections" columns=${columns} rows=${listed.collections} keyOf=${(collection) => collection.name}
      empty="No collection yet." />
  <//>`;
}

function Jobs({ can }) {
  const [jobs, again] = useJobs();
  const [error, setError] = useState(null);
  const cancel = (id) => post(`v1/jobs/${encodeURIComponent(id)}/cancel`).then(again, setError);
  if (!jobs) return html`<${Panel} title="Jobs"><div class="inside"><${Waiting} /></div><//>`;
  const columns = [
    { title: "Job", class: "name", show: (job) => KINDS[job.kind] ?? job.kind },
    { title: "Collection", class: "break", show: (job) => job.collection || "–" },
    { title: "State", show: (job) => html`<${Tag} kind=${STATES[job.state]}>${job.state}<//>` },
    { title: "Progress", class: "wide", show: (job) => job.state === "running" ? html`<${Progress} job=${job} />` : job.error ? html`<span class="sub">${job.error.detail}</span>` : "" },
    { title: "Started", number: true, show: (job) => ago(job.started ?? job.created) },
    { title: "", number: true, show: (job) => !job.finished && can("write") && html`<${Button} kind="small" onClick=${() => cancel(job.id)}>Cancel<//>` },
  ];
  return html`<${Panel} title="Jobs" what="Work in the background. Unfinished jobs continue after a restart.">
    <${Failure} error=${error} />
    <${Table} stacks label="Jobs" columns=${columns} rows=${jobs} keyOf=${(job) => job.id} empty="No job has run yet." />
  <//>`;
}

/** The numbers among an encoder's figures, whose structure depends on the training method. */
export function flatFigures(figures, prefix = "") {
  return Object.entries(figures ?? {}).flatMap(([name, value]) => {
    if (typeof value === "number") return [[prefix + name, value]];
    if (value && typeof value === "object" && !Array.isArray(value)) return flatFigures(value, `${prefix}${name} `);
    return [];
  });
}

function Figures({ name }) {
  const { data, error } = useLoaded((signal) => get(`v1/encoders/${encodeURIComponent(name)}`, { signal }), [name]);
  if (error) return html`<span class="sub">${error.message}</span>`;
  if (!data) return "…";
  const figures = flatFigures(data.figures);
  if (!figures.length) return html`<span class="sub">none recorded</span>`;
  return html`<details><summary>${figures.slice(0, 2).map(([key, value]) => `${key.replace(/^validation metrics /, "")} ${figure(value)}`).join(", ")}</summary>
    ${figures.slice(2, 60).map(([key, value]) => html`<span class="sub break">${key} <b>${figure(value)}</b></span>`)}</details>`;
}

/** A summary of what an encoder was trained on, if its record has the usual fields. */
function origin(record) {
  if (!record || typeof record !== "object") return record ? short(displayValue(record), 300) : "–";
  const { documents, labelled, classes } = record;
  const parts = [
    typeof documents === "number" && plural(documents, "document"),
    typeof labelled === "number" && `${count(labelled)} labelled`,
    Array.isArray(classes) && plural(classes.length, "class", "classes"),
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : short(JSON.stringify(record), 300);
}

function Encoders({ listed }) {
  const columns = [
    { title: "Name", class: "name", show: (encoder) => encoder.name },
    { title: "Bits", number: true, show: (encoder) => encoder.n_bits },
    { title: "Kind", show: (encoder) => encoder.kind },
    { title: "Trained on", class: "wide", show: (encoder) => origin(encoder.trained_on) },
    { title: "Figures on held-out documents", class: "wide", show: (encoder) => html`<${Figures} name=${encoder.name} />` },
    { title: "Fingerprint", show: (encoder) => html`<code title=${encoder.fingerprint}>${encoder.fingerprint.slice(0, 10)}</code>` },
  ];
  return html`<${Panel} title="Encoders">
    ${listed.unavailable.map((encoder) => html`<div class="inside"><${Note} kind="bad"><b>${encoder.name}</b> cannot be loaded: ${encoder.reason}<//></div>`)}
    <${Table} stacks label="Encoders" columns=${columns} rows=${listed.encoders} keyOf=${(encoder) => encoder.name} empty="No encoder yet. hummingbit train creates one." />
  <//>`;
}

function Snapshots({ listed }) {
  const columns = [
    { title: "Collection", class: "name", show: (snapshot) => snapshot.collection },
    { title: "Created", show: (snapshot) => ago(snapshot.created) },
    { title: "Documents", number: true, show: (snapshot) => count(snapshot.documents) },
    { title: "Generation", number: true, show: (snapshot) => count(snapshot.generation) },
    { title: "Size", number: true, show: (snapshot) => size(snapshot.bytes) },
  ];
  return html`<${Panel} title="Snapshots">
    <${Table} stacks label="Snapshots" columns=${columns} rows=${listed.snapshots} keyOf=${(snapshot) => snapshot.id} empty="No snapshots. hummingbit snapshot create makes one." />
  <//>`;
}

function Aliases({ aliases }) {
  const columns = [
    { title: "Alias", class: "name", show: ([alias]) => alias },
    { title: "Collection", show: ([, collection]) => collection },
  ];
  return html`<${Panel} title="Aliases">
    <${Table} label="Aliases" columns=${columns} rows=${Object.entries(aliases)} keyOf=${([alias]) => alias} empty="No aliases." />
  <//>`;
}

/** A panel whose content is still being loaded, or cannot be. */
const Pending = ({ title, error }) => html`<${Panel} title=${title}><div class="inside">${error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`}</div><//>`;

export default function Overview({ access, can, link, listed, aliases, reload }) {
  const ready = useLoaded(readiness, []);
  const encoders = useLoaded((signal) => get("v1/encoders", { signal }), []);
  const seesSnapshots = access.role === "admin";
  const snapshots = useLoaded(async (signal) => (seesSnapshots ? get("v1/snapshots", { signal }) : null), []);
  const [error, setError] = useState(null);
  const refresh = () => {
    setError(null);
    reload().catch(setError);
    [ready, encoders, snapshots].forEach((loaded) => loaded.reload());
  };
  const status = ready.error?.message ?? ready.data?.status;
  const empty = !listed.collections.length && encoders.data && !encoders.data.encoders.length;
  return html`
    <div class="head"><h1>Overview</h1>
      <${Tag} kind=${!status ? "" : status === "ready" ? "good" : "bad"}>${status ?? "…"}<//>
      <span class="spacer"></span><${Button} kind="small" onClick=${refresh}>Refresh<//>
    </div>
    <div class="stack">
      <${Failure} error=${error} />
      ${empty && !can("admin") && html`<${Empty} title="The data folder is empty"><code>hummingbit quickstart</code> creates a collection from a file of documents.<//>`}
      <${Collections} listed=${listed} unwritable=${ready.data?.unwritable} link=${link} />
      ${can("admin") && html`<${NewCollection} collections=${listed.collections} aliases=${aliases} link=${link} reload=${refresh} />`}
      <${Jobs} can=${can} />
      ${encoders.data ? html`<${Encoders} listed=${encoders.data} />` : html`<${Pending} title="Encoders" error=${encoders.error} />`}
      <div class="columns"><${Aliases} aliases=${aliases} />
        ${seesSnapshots && (snapshots.data ? html`<${Snapshots} listed=${snapshots.data} />` : html`<${Pending} title="Snapshots" error=${snapshots.error} />`)}</div>
    </div>`;
}
