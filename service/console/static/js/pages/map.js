// The distinct codes of a collection in the plane.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { bytes, get, jobsOf, of, post } from "../api.js";
import { ago, count, percent, plural, short } from "../format.js";
import { Passage } from "../hits.js";
import { useJob } from "../jobs.js";
import { MapView, useTheme } from "../mapview.js";
import { Button, CollectionPicker, Empty, Failure, Field, Note, Panel, Progress, Segments, Select, Waiting, useLoaded } from "../parts.js";
import { labelOf, legendOf, palette, purityOf, readPoints } from "../points.js";

const COLOURS = [["label", "Label"], ["purity", "Purity"], ["age", "Time"], ["documents", "Documents"]];
const BUCKETS = 30;
const OF_BUCKET = 8;

async function load(collection) {
  if (!collection) return { done: [] };
  const [jobs, { generation }] = await Promise.all([jobsOf("map", collection, 50), get(of(collection))]);
  const done = jobs.filter((job) => job.state === "done");
  const running = jobs.find((job) => !job.finished);
  if (!done.length) return { running, done, generation };
  const { map } = await get(`v1/maps/${done[0].id}`);
  return { running, done, generation, map, points: readPoints(await bytes(`v1/maps/${done[0].id}/points`), map) };
}

/** The documents of some codes: those of each at distance 0, the codes with the most first. */
async function documentsOf(collection, points, chosen) {
  const codes = [...chosen].sort((a, b) => points.documents[b] - points.documents[a]).slice(0, BUCKETS);
  const each = codes.length === 1 ? 100 : OF_BUCKET;
  const searches = codes.map((at) => ({ code: points.code(at), radius: 0, limit: each, with_text: true, with_payload: true }));
  const { results } = await post(`${of(collection)}/search/batch`, { searches });
  return results.flatMap((result) => result.hits);
}

function Start({ collection, running, onDone, drawn }) {
  const [field, setField] = useState(drawn?.label_field ?? "label");
  const [method, setMethod] = useState("");
  const { busy, job, error, run } = useJob(onDone);
  useEffect(() => { if (running) run(async () => running); }, []);
  const start = () => run(() => post(`${of(collection)}/map`, { label_field: field, method: method || null }));
  return html`<div class="stack">
    <${Failure} error=${error} />
    ${busy
      ? html`<div class="row">${job ? html`<${Progress} job=${job} />` : html`<${Waiting} />`}</div>`
      : html`<div class="row">
          <${Field} label="Label field"><input value=${field} size="12" onInput=${(event) => setField(event.currentTarget.value)} /><//>
          <${Field} label="Layout"><${Select} value=${method} onChange=${setMethod} options=${[["", "the best installed"], ["tsne", "neighbourhoods (t-SNE)"], ["pca", "principal plane"]]} /><//>
          <${Button} kind=${drawn ? "" : "primary"} onClick=${start} disabled=${!field}>${drawn ? "Draw again" : "Draw the map"}<//>
        </div>`}
  </div>`;
}

function Legend({ described, by }) {
  const isDark = useTheme();
  const entries = legendOf(described, by, palette(isDark));
  return html`<ul class="swatches">
    ${entries.map(([colour, text, number]) => html`<li>
      <svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5" fill=${`rgb(${colour.join(",")})`} /></svg>
      <span class="text">${text}</span><span class="what">${number}</span></li>`)}
  </ul>`;
}

function Selection({ collection, points, described, selected }) {
  const { data, error, loading } = useLoaded(() => (selected.length ? documentsOf(collection, points, selected) : Promise.resolve([])), [selected]);
  if (!selected.length) return html`<p class="nothing">Click a point for the documents of its code, or draw around a region with the lasso (or with Shift held).</p>`;
  const documents = selected.reduce((sum, at) => sum + points.documents[at], 0);
  const labels = new Map();
  for (const at of selected) {
    const name = labelOf(points, described, at);
    labels.set(name, (labels.get(name) ?? 0) + points.documents[at]);
  }
  const most = [...labels].sort((a, b) => b[1] - a[1]);
  const purity = selected.length === 1 ? purityOf(points, selected[0]) : null;
  return html`
    <div class="inside stack">
      <p><b>${plural(documents, "document")}</b> of ${plural(selected.length, "code")}${purity != null ? html`, ${percent(purity, 0)} of them ${labelOf(points, described, selected[0])}` : ""}</p>
      ${selected.length === 1
        ? html`<code class="break">${points.code(selected[0])}</code>`
        : html`<ul class="swatches">${most.slice(0, 8).map(([name, n]) => html`<li><span></span><span class="text">${name}</span><span class="what">${percent(n / documents, 0)}</span></li>`)}</ul>`}
    </div>
    <${Failure} error=${error} />
    ${loading && html`<div class="inside"><${Waiting} /></div>`}
    ${data && html`<ul class="documents" tabindex="0" aria-label="Documents">${data.map((hit) => html`<li key=${hit.id}>
      <span class="id">${hit.id}</span> <span class="what">${short(String(hit.payload?.[described.label_field] ?? ""), 60)}</span>
      <div>${hit.text ? short(hit.text, 180) : ""}</div></li>`)}</ul>`}
    ${data && data.length < documents && html`<p class="nothing">${count(data.length)} of ${count(documents)} are listed, the fullest codes first.</p>`}`;
}

function Neighbours({ collection, points, onFound }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const search = async (event) => {
    event.preventDefault();
    setError(null);
    if (!text.trim()) { setFound(null); onFound([], null); return; }
    try {
      const answer = await post(`${of(collection)}/search`, { text, limit: 40, with_code: true, highlight: true, with_text: true });
      const rings = [...new Set(answer.hits.map((hit) => points.find(hit.code)).filter((at) => at >= 0))];
      const near = rings.slice(0, 5);
      const middle = (axis) => near.reduce((sum, at) => sum + points[axis][at], 0) / near.length;
      setFound(answer);
      onFound(rings, near.length ? [middle("x"), middle("y")] : null);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<form onSubmit=${search} class="inside stack">
    <div class="row"><input type="search" aria-label="Query to draw in the map" placeholder="Words of a query" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <button class="button" type="submit">Show</button></div>
    <${Failure} error=${error} />
    ${found && html`<p class="what">${plural(found.hits.length, "hit")} ringed; the cross lies among the first five.</p>
      <ol>${found.hits.slice(0, 5).map((hit) => html`<li key=${hit.id}><b class="break">${hit.id}</b><${Passage} highlight=${hit.highlight} /></li>`)}</ol>`}
  </form>`;
}

function Largest({ points, described, onSelect }) {
  const most = useMemo(() => Array.from({ length: points.count }, (_, at) => at).sort((a, b) => points.documents[b] - points.documents[a]).slice(0, 12), [points]);
  return html`<ul class="documents" tabindex="0" aria-label="Largest codes">${most.map((at) => html`<li key=${at}>
    <button type="button" class="button plain small" onClick=${() => onSelect([at])}>${plural(points.documents[at], "document")}</button> ${labelOf(points, described, at)}</li>`)}</ul>`;
}

function Drawn({ collection, found, onDone }) {
  const { generation, map, points } = found;
  const [by, setBy] = useState("label");
  const [selected, setSelected] = useState([]);
  const [query, setQuery] = useState({ rings: [], cross: null });
  return html`
    <div class="row"><${Segments} label="Colour by" value=${by} options=${COLOURS} onChange=${setBy} />
      <span class="what">${count(map.points)} of ${count(map.distinct_codes)} distinct codes of ${count(map.documents)} documents, ${map.method === "tsne" ? "by t-SNE: near codes lie near each other, and distances between groups mean little" : "on their principal plane"}; drawn ${ago(found.done[0].finished)}.</span></div>
    ${generation !== map.generation && html`<${Note} kind="warn">The collection was written to since: the map shows generation ${count(map.generation)}, it is at ${count(generation)} now.<//>`}
    <div class="map">
      <${MapView} points=${points} described=${map} by=${by} selected=${selected} rings=${query.rings} cross=${query.cross} onSelect=${setSelected} />
      <div class="stack">
        <${Panel} title=${selected.length ? "Selected" : "Nothing selected"} actions=${selected.length > 0 && html`<${Button} kind="small" onClick=${() => setSelected([])}>Clear<//>`}>
          <${Selection} collection=${collection} points=${points} described=${map} selected=${selected} /><//>
        <${Panel} title="A query's neighbours"><${Neighbours} collection=${collection} points=${points} onFound=${(rings, cross) => setQuery({ rings, cross })} /><//>
        <${Panel} title="Colours"><div class="inside"><${Legend} described=${map} by=${by} /></div><//>
        <${Panel} title="Fullest codes"><${Largest} points=${points} described=${map} onSelect=${setSelected} /><//>
        <${Panel} title="Another map"><div class="inside"><${Start} collection=${collection} running=${found.running} onDone=${onDone} drawn=${map} /></div><//>
      </div>
    </div>`;
}

export function MapPage({ collections, collection, setParams }) {
  const { data, error, reload } = useLoaded(() => load(collection), [collection]);
  return html`
    <div class="head"><h1>Map</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name })} />`}
    </div>
    <div class="stack">
      <${Failure} error=${error} />
      ${!collection && html`<${Empty} title="There is nothing to draw">No collection has been made yet.<//>`}
      ${!data && !error && html`<${Waiting} />`}
      ${data && collection && (data.map
        ? html`<${Drawn} key=${data.done[0].id} collection=${collection} found=${data} onDone=${reload} />`
        : html`<${Panel} title="No map yet" what="A job lays out the distinct codes in the plane, near codes near each other. Requests go on meanwhile; 100,000 codes take a minute or two.">
            <div class="inside"><${Start} key=${collection} collection=${collection} running=${data.running} onDone=${reload} /></div><//>`)}
    </div>`;
}
