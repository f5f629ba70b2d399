// Near-duplicates: clusters to review, one after another.
import { html, useEffect, useState } from "../lib.js";
import { get, jobsOf, pathOf, post } from "../api.js";
import { ago, count, plural, short } from "../format.js";
import { Payload } from "../hits.js";
import { useJob } from "../jobs.js";
import { useKeys } from "../keys.js";
import { Button, CollectionPicker, Dialog, Failure, Field, NoCodes, NoCollection, Note, Panel, Progress, Select, Table, Tag, Waiting, hasCodes, useLoaded } from "../parts.js";

const PAGE = 10;
const SHOWN = 20;

function Finder({ collection, onDone }) {
  const [radius, setRadius] = useState("2");
  const [confirm, setConfirm] = useState("0.5");
  const [byText, setByText] = useState(true);
  const { busy, job, error, run } = useJob((done) => onDone(done.id));
  const start = (event) => {
    event.preventDefault();
    run(() => post(`${pathOf(collection)}/duplicates`, { radius: Number(radius), confirm: byText ? Number(confirm) : null }));
  };
  return html`<form class="inside stack" onSubmit=${start}>
    <div class="row">
      <${Field} label="Bits that may differ"><input type="number" min="0" value=${radius} onInput=${(event) => setRadius(event.currentTarget.value)} /><//>
      <label class="check"><input type="checkbox" checked=${byText} onChange=${(event) => setByText(event.currentTarget.checked)} /> compare texts too</label>
      ${byText && html`<${Field} label="Minimum similarity of texts"><input type="number" min="0.01" max="1" step="any" value=${confirm} onInput=${(event) => setConfirm(event.currentTarget.value)} /><//>`}
      <button class="button primary" type="submit" disabled=${busy || radius === ""}>Find near-duplicates</button>
      ${job && html`<${Progress} job=${job} />`}
    </div>
    <${Failure} error=${error} />
  </form>`;
}

/** A cluster; the documents to keep are checked. */
function Cluster({ cluster, documents, done, can, onDelete, onKeep }) {
  const listed = cluster.ids.slice(0, SHOWN);
  const [kept, setKept] = useState(() => new Set(listed.slice(0, 1)));
  const leaving = listed.filter((id) => !kept.has(id) && documents.has(id));
  const toggle = (id) => setKept((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  return html`<div class="cluster">
    <div class="row"><b>${plural(cluster.size, "document")}</b>
      ${done && html`<${Tag} kind=${done === "kept" ? "" : "bad"}>${done}<//>`}
      ${cluster.size > listed.length && html`<span class="what">the first ${listed.length} are shown</span>`}
    </div>
    <ol>${listed.map((id) => {
      const known = documents.get(id);
      const gone = !known || (done && done !== "kept" && !kept.has(id));
      return html`<li key=${id} class=${gone ? "gone" : ""}>
        ${can && !done ? html`<input type="checkbox" aria-label=${`Keep ${short(id, 120)}`} checked=${kept.has(id)} onChange=${() => toggle(id)} />` : html`<span></span>`}
        <div><b class="break">${id}</b> <${Payload} payload=${known?.payload} most=${3} /></div>
        ${known?.text && html`<p>${short(known.text, 260)}</p>`}
      </li>`;
    })}</ol>
    ${can && !done && html`<div class="actions">
      <${Button} kind="small" onClick=${onKeep}>Keep all<//>
      <${Button} kind="small danger" disabled=${!leaving.length || !kept.size} onClick=${() => onDelete(leaving)}>Delete ${plural(leaving.length, "unchecked document")}<//>
    </div>`}
  </div>`;
}

function Clusters({ collection, id, can, onChanged }) {
  const [offset, setOffset] = useState(0);
  const [done, setDone] = useState({});
  const [error, setError] = useState(null);
  const { data, error: failed } = useLoaded(async (signal) => {
    const clusters = await get(`v1/duplicates/${encodeURIComponent(id)}?offset=${offset}&limit=${PAGE}`, { signal });
    const ids = clusters.page.flatMap((cluster) => cluster.ids.slice(0, SHOWN));
    const { documents } = ids.length ? await post(`${pathOf(collection)}/documents:get`, { ids }) : { documents: [] };
    return { ...clusters, documents: new Map(documents.map((document) => [document.id, document])) };
  }, [offset]);
  if (failed) return html`<${Failure} error=${failed} />`;
  if (!data) return html`<${Waiting} />`;
  const mark = (place, outcome) => setDone((before) => ({ ...before, [place]: outcome }));
  const remove = async (place, ids) => {
    setError(null);
    try {
      const { deleted } = await post(`${pathOf(collection)}/documents:delete`, { ids });
      mark(place, `${deleted} deleted`);
      onChanged();
    } catch (problem) {
      setError(problem);
    }
  };
  const last = Math.min(offset + PAGE, data.clusters);
  return html`<${Panel} title=${plural(data.clusters, "cluster")} what="Checked documents are kept. At first, only the oldest document of each cluster is checked."
    actions=${data.clusters > PAGE && html`<span class="what">${count(offset + 1)}–${count(last)}</span>
      <${Button} kind="small" disabled=${!offset} onClick=${() => setOffset(offset - PAGE)}>Previous<//>
      <${Button} kind="small" disabled=${last >= data.clusters} onClick=${() => setOffset(offset + PAGE)}>Next<//>`}>
    <${Failure} error=${error} />
    ${!data.clusters && html`<p class="nothing">No near-duplicates were found.</p>`}
    ${data.page.map((cluster, place) => html`<${Cluster} key=${offset + place} cluster=${cluster} documents=${data.documents} can=${can}
      done=${done[offset + place]} onKeep=${() => mark(offset + place, "kept")} onDelete=${(ids) => remove(offset + place, ids)} />`)}
  <//>`;
}

const KEEP = [["oldest", "the oldest"], ["newest", "the newest"]];

/** What a deletion keeps and deletes: the ids of a page of clusters, as they were found. */
function Preview({ id, keep }) {
  const [offset, setOffset] = useState(0);
  const { data, error } = useLoaded((signal) => get(`v1/duplicates/${encodeURIComponent(id)}?offset=${offset}&limit=${PAGE}`, { signal }), [offset]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const last = Math.min(offset + PAGE, data.clusters);
  return html`<div class="row"><span class="what">Clusters ${count(offset + 1)}–${count(last)} of ${count(data.clusters)}</span>
      <${Button} kind="small" disabled=${!offset} onClick=${() => setOffset(offset - PAGE)}>Previous<//>
      <${Button} kind="small" disabled=${last >= data.clusters} onClick=${() => setOffset(offset + PAGE)}>Next<//></div>
    <ol class="preview" tabindex="0" aria-label="What is kept and deleted">${data.page.map((cluster, place) => {
      const kept = keep === "oldest" ? cluster.ids[0] : cluster.newest;
      const others = cluster.ids.filter((one) => one !== kept).slice(0, SHOWN);
      return html`<li key=${offset + place}><span class="what">keep</span> <b class="break">${kept}</b> <span class="what">delete</span> ${others.map((one, at) => html`${at > 0 && ", "}<s class="break">${one}</s>`)}${cluster.size - 1 > others.length && html` <span class="what">and ${count(cluster.size - 1 - others.length)} more</span>`}</li>`;
    })}</ol>`;
}

/** Deletes all documents but one of every cluster, after a preview. */
function ApplyToAll({ run, onDone }) {
  const [keep, setKeep] = useState("oldest");
  const [open, setOpen] = useState(false);
  const [stopped, setStopped] = useState(null);
  const { busy, job, error, run: start } = useJob(onDone);
  const running = useLoaded(() => jobsOf("delete_duplicates", run.collection), []);
  useEffect(() => {
    const unfinished = running.data?.find((one) => !one.finished);
    if (unfinished && !busy) start(async () => unfinished);
  }, [running.data]);
  const { clusters, documents_with_an_older_duplicate: leaving } = run.result;
  useKeys({ a: () => !busy && setOpen(true) });
  const confirm = () => {
    setOpen(false);
    start(() => post(`v1/duplicates/${encodeURIComponent(run.id)}/delete`, { keep }));
  };
  const cancel = () => post(`v1/jobs/${encodeURIComponent(job.id)}/cancel`).catch(setStopped);
  return html`<${Panel} title="Apply to all" what=${`Keeps one document of each of the ${plural(clusters, "cluster")} and deletes the others: ${plural(leaving, "document")}.`}>
    <div class="inside stack">
      <${Failure} error=${error ?? stopped} />
      ${busy
        ? html`<div class="row">${job ? html`<${Progress} job=${job} /><${Button} kind="small" onClick=${cancel}>Cancel<//>` : html`<${Waiting} what="Starting" />`}</div>`
        : html`<div class="row"><${Field} label="Keep"><${Select} value=${keep} options=${KEEP} onChange=${setKeep} /><//>
            <${Button} onClick=${() => setOpen(true)}><kbd>a</kbd> Preview<//></div>`}
    </div>
    ${open && html`<${Dialog} title=${`Keep ${keep === "oldest" ? "the oldest" : "the newest"} of ${plural(clusters, "cluster")}`} onClose=${() => setOpen(false)}>
      <div class="inside stack">
        <p><b>${plural(leaving, "document")}</b> will be deleted. Documents that were written since the search are left, and at least one of each cluster stays. This cannot be undone.</p>
        <${Preview} id=${run.id} keep=${keep} />
        <div class="actions"><${Button} onClick=${() => setOpen(false)}>Keep everything<//>
          <${Button} kind="danger" onClick=${confirm}>Delete ${plural(leaving, "document")}<//></div>
      </div><//>`}
  <//>`;
}

const outcomeOf = ({ deleted, changed }) => `${plural(deleted, "document")} deleted.${changed ? ` ${plural(changed, "document")} written since the search ${changed === 1 ? "was" : "were"} left.` : ""}`;

export default function Duplicates({ collections, collection, params, setParams, can, reload }) {
  const runs = useLoaded(() => (collection ? jobsOf("duplicates", collection) : Promise.resolve([])), [collection]);
  const finished = (runs.data ?? []).filter((job) => job.state === "done");
  const chosen = finished.find((job) => job.id === params.run) ?? finished[0];
  const columns = [
    { title: "Finished", class: "name", show: (job) => ago(job.finished) },
    { title: "Clusters", number: true, show: (job) => count(job.result.clusters) },
    { title: "Documents with an older duplicate", number: true, show: (job) => count(job.result.documents_with_an_older_duplicate) },
    { title: "", number: true, show: (job) => html`<${Button} kind="small" onClick=${() => setParams({ run: job.id })}>Show<//>` },
  ];
  const [deleted, setDeleted] = useState(null);
  const done = (run) => { setDeleted(null); runs.reload(); setParams({ run }); };
  return html`
    <div class="head"><h1>Duplicates</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name, run: "" })} />`}
      <p class="what">Two documents are near-duplicates if their codes differ in few bits. If texts are compared, they must also share enough runs of five words. A cluster is a group of documents that near-duplicates connect.</p>
    </div>
    ${!collection
      ? html`<${NoCollection} />`
      : !hasCodes(collections, collection)
      ? html`<${NoCodes} />`
      : html`<div class="stack">
          <${Panel} title="Find near-duplicates"><${Finder} key=${collection} collection=${collection} onDone=${done} /><//>
          <${Failure} error=${runs.error} />
          ${deleted && html`<${Note} kind="good"><span role="status">${outcomeOf(deleted.result)}</span><//>`}
          ${chosen && can("write") && chosen.result.clusters > 0 && chosen.result.last_row != null && html`<${ApplyToAll} key=${`all ${chosen.id}`} run=${chosen} onDone=${(job) => { setDeleted(job); reload(); }} />`}
          ${chosen && html`<${Clusters} key=${`${chosen.id} ${deleted?.id}`} collection=${collection} id=${chosen.id} can=${can("write")} onChanged=${reload} />`}
          ${finished.length > 1 && html`<${Panel} title="Earlier searches"><${Table} label="Earlier searches" columns=${columns} rows=${finished} keyOf=${(job) => job.id} marked=${(job) => job.id === chosen.id} /><//>`}
        </div>`}`;
}
