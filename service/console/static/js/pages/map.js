// The distinct codes of a collection in the plane.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { bytes, get, jobsOf, pathOf, post } from "../api.js";
import { ago, count, percent, plural, short } from "../format.js";
import { Passage } from "../hits.js";
import { useJob } from "../jobs.js";
import { MapView, useTheme } from "../mapview.js";
import { Button, CollectionPicker, Failure, Field, NoCodes, NoCollection, NoDocuments, Note, Panel, Progress, Segments, Select, Waiting, hasCodes, useLoaded } from "../parts.js";
import { labelLegend, labelOf, labelSets, palette, purityOf, readPoints, scaleOf } from "../points.js";

const TIME = ["time", "Time"];
const COLOURS = [["label", "Label"], ["purity", "Purity"], ["age", "Order of insertion"], ["documents", "Documents"]];
const LEARNED = ["learned", "Learned from"];
const METHODS = {
  tsne: "by t-SNE. Similar codes lie close together; distances between groups mean little",
  chl: "by the continuous histogram loss: of two pairs of codes, the more similar one should be the nearer one",
  pca: "by the first two principal components",
};
const BUCKETS = 30;
const OF_BUCKET = 8;

async function load(collection) {
  if (!collection) return { done: [] };
  const [jobs, { generation, documents, encoder }] = await Promise.all([jobsOf("map", collection, 50), get(pathOf(collection))]);
  const done = jobs.filter((job) => job.state === "done");
  const running = jobs.find((job) => !job.finished);
  if (!done.length) return { running, done, generation, documents };
  const { map } = await get(`v1/maps/${done[0].id}`);
  return { running, done, generation, encoder, map, points: readPoints(await bytes(`v1/maps/${done[0].id}/points`), map) };
}

/** The documents of some codes: those of each at distance 0, the codes with the most first. */
async function documentsOf(collection, points, chosen) {
  const codes = [...chosen].sort((a, b) => points.documents[b] - points.documents[a]).slice(0, BUCKETS);
  const each = codes.length === 1 ? 100 : OF_BUCKET;
  const searches = codes.map((point) => ({ code: points.code(point), radius: 0, limit: each, with_text: true, with_payload: true }));
  const { results } = await post(`${pathOf(collection)}/search/batch`, { searches });
  return results.flatMap((result) => result.hits);
}

function Start({ collection, running, onDone, drawn }) {
  const [field, setField] = useState(drawn?.label_field ?? "label");
  const [time, setTime] = useState(drawn?.time?.field ?? "");
  const [method, setMethod] = useState("");
  const { busy, job, error, run } = useJob(onDone);
  useEffect(() => { if (running) run(async () => running); }, []);
  const start = () => run(() => post(`${pathOf(collection)}/map`, { label_field: field, time_field: time.trim() || null, method: method || null }));
  return html`<div class="stack">
    <${Failure} error=${error} />
    ${busy
      ? html`<div class="row">${job ? html`<${Progress} job=${job} />` : html`<${Waiting} />`}</div>`
      : html`<div class="row">
          <${Field} label="Label field"><input value=${field} size="12" onInput=${(event) => setField(event.currentTarget.value)} /><//>
          <${Field} label="Time field" hint="numbers or dates"><input value=${time} size="12" placeholder="none" onInput=${(event) => setTime(event.currentTarget.value)} /><//>
          <${Field} label="Layout"><${Select} value=${method} onChange=${setMethod} options=${[["", "best available"], ["tsne", "t-SNE (neighbourhoods)"], ["chl", "histogram loss (degrees of similarity)"], ["pca", "principal components (coarse)"]]} /><//>
          <${Button} kind=${drawn ? "" : "primary"} onClick=${start} disabled=${!field}>${drawn ? "Draw again" : "Draw the map"}<//>
        </div>`}
  </div>`;
}

/** The colours of labels. Pressing a label fades all others; pressing it again shows them. */
function LabelLegend({ labels, only, onOnly }) {
  const entries = labelLegend(labels, palette(useTheme()));
  if (!entries.length) return html`<p class="what">No document has a label.</p>`;
  const dot = ({ colour }) => html`<svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5" fill=${`rgb(${colour.join(",")})`} /></svg>`;
  return html`<ul class="swatches many">
    ${entries.map((entry) => html`<li key=${entry.place}>
      ${entry.place == null
        ? html`${dot(entry)}<span class="text">${entry.name}</span>`
        : html`<button type="button" aria-pressed=${String(entry.place === only)} onClick=${() => onOnly(entry.place === only ? null : entry.place)}>
            ${dot(entry)}<span class="text">${entry.name}</span><span class="what">${entry.documents}</span></button>`}
    </li>`)}
  </ul>`;
}

function Scale({ points, described, by }) {
  const colours = palette(useTheme());
  const { what, ticks, grey } = scaleOf(points, described, by);
  const stops = Array.from({ length: 33 }, (_, step) => step / 32);
  const fill = (colour) => `rgb(${colour.join(",")})`;
  return html`<div class="scale">
    <p class="what">${what}</p>
    <svg viewBox="0 0 33 3" preserveAspectRatio="none" aria-hidden="true">
      ${stops.map((share, step) => html`<rect x=${step} y="0" width="1.05" height="3" fill=${fill(colours[by](ticks.length > 1 ? share : 0))} />`)}
    </svg>
    <ol>${ticks.map((tick) => html`<li>${tick}</li>`)}</ol>
    ${grey && html`<ul class="swatches"><li><svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5" fill=${fill(colours.grey)} /></svg><span class="text">${grey}</span></li></ul>`}
  </div>`;
}

function Selection({ collection, points, described, labels, selected }) {
  const { data, error, loading } = useLoaded(() => (selected.length ? documentsOf(collection, points, selected) : Promise.resolve([])), [selected]);
  if (!selected.length) return html`<p class="nothing">Click a point to list the documents with its code. To select a region, use the lasso, or hold Shift and drag.</p>`;
  const documents = selected.reduce((sum, point) => sum + points.documents[point], 0);
  const byLabel = new Map();
  for (const point of selected) {
    const name = labelOf(labels, point);
    byLabel.set(name, (byLabel.get(name) ?? 0) + points.documents[point]);
  }
  const most = [...byLabel].sort((a, b) => b[1] - a[1]);
  const purity = selected.length === 1 ? purityOf(labels, selected[0]) : null;
  return html`
    <div class="inside stack">
      <p><b>${plural(documents, "document")}</b> of ${plural(selected.length, "code")}${purity != null ? html`, ${percent(purity, 0)} of the labelled ones have the label ${labelOf(labels, selected[0])}` : ""}</p>
      ${selected.length === 1
        ? html`<code class="break">${points.code(selected[0])}</code>`
        : html`<ul class="swatches plain">${most.slice(0, 8).map(([name, n]) => html`<li><span class="text">${name}</span><span class="what">${percent(n / documents, 0)}</span></li>`)}</ul>`}
    </div>
    <${Failure} error=${error} />
    ${loading && html`<div class="inside"><${Waiting} /></div>`}
    ${data && html`<ul class="documents" tabindex="0" aria-label="Documents">${data.map((hit) => html`<li key=${hit.id}>
      <span class="id">${hit.id}</span> <span class="what">${short(String(hit.payload?.[described.label_field] ?? ""), 60)}</span>
      <div>${hit.text ? short(hit.text, 180) : ""}</div></li>`)}</ul>`}
    ${data && data.length < documents && html`<p class="nothing">${count(data.length)} of ${count(documents)} are listed, those of the most frequent codes first.</p>`}`;
}

function Neighbours({ collection, points, onFound }) {
  const [text, setText] = useState("");
  const [response, setResponse] = useState(null);
  const [error, setError] = useState(null);
  const search = async (event) => {
    event.preventDefault();
    setError(null);
    if (!text.trim()) { setResponse(null); onFound([], null); return; }
    try {
      const answer = await post(`${pathOf(collection)}/search`, { text, limit: 40, with_code: true, highlight: true, with_text: true });
      const rings = [...new Set(answer.hits.map((hit) => points.find(hit.code)).filter((point) => point >= 0))];
      const near = rings.slice(0, 5);
      const middle = (axis) => near.reduce((sum, point) => sum + points[axis][point], 0) / near.length;
      setResponse(answer);
      onFound(rings, near.length ? [middle("x"), middle("y")] : null);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<form onSubmit=${search} class="inside stack">
    <div class="row"><input type="search" aria-label="Query to show on the map" placeholder="Words of a query" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <button class="button" type="submit">Show</button></div>
    <${Failure} error=${error} />
    ${response && html`<p class="what">${plural(response.hits.length, "hit")} ringed. The cross is at the centre of the first five.</p>
      <ol>${response.hits.slice(0, 5).map((hit) => html`<li key=${hit.id}><b class="break">${hit.id}</b><${Passage} highlight=${hit.highlight} /></li>`)}</ol>`}
  </form>`;
}

function Largest({ points, labels, onSelect }) {
  const most = useMemo(() => Array.from({ length: points.count }, (_, point) => point).filter((point) => points.documents[point] > 1).sort((a, b) => points.documents[b] - points.documents[a]).slice(0, 12), [points]);
  if (!most.length) return html`<p class="nothing">No two documents share a code.</p>`;
  return html`<ul class="documents" tabindex="0" aria-label="Most frequent codes">${most.map((point) => html`<li key=${point}>
    <button type="button" class="button plain small" onClick=${() => onSelect([point])}>${plural(points.documents[point], "document")}</button> ${labelOf(labels, point)}</li>`)}</ul>`;
}

function Drawn({ collection, loaded, onDone }) {
  const { generation, encoder, map, points } = loaded;
  const sets = useMemo(() => labelSets(points, map), [points]);
  const [set, setSet] = useState(!map.labels.length && sets.given ? "given" : "field");
  const [by, setBy] = useState("label");
  const [only, setOnly] = useState(null);
  const [selected, setSelected] = useState([]);
  const [query, setQuery] = useState({ rings: [], cross: null });
  const labels = sets[set];
  const chooseSet = (name) => { setSet(name); setOnly(null); };
  const options = [...COLOURS.slice(0, 2), ...(points.learned ? [LEARNED] : []), ...(points.time ? [TIME] : []), ...COLOURS.slice(2)];
  return html`
    <div class="row"><${Segments} label="Colour by" value=${by} options=${options} onChange=${setBy} />
      ${sets.given && html`<${Segments} label="Labels" value=${set} options=${[["field", `Field ${short(map.label_field, 24)}`], ["given", "Set by hand"]]} onChange=${chooseSet} />`}
      <span class="what">${count(map.points)} of ${count(map.distinct_codes)} distinct codes of ${plural(map.documents, "document")}, drawn ${ago(loaded.done[0].finished)} ${METHODS[map.method]}.</span></div>
    ${generation !== map.generation && html`<${Note} kind="warn">The collection has changed since: the map shows generation ${count(map.generation)}, and the collection is at generation ${count(generation)}.<//>`}
    <div class="map">
      <${MapView} points=${points} labels=${labels} by=${by} only=${only} selected=${selected} rings=${query.rings} cross=${query.cross} onSelect=${setSelected} />
      <div class="stack">
        <${Panel} title="Colours"><div class="inside">${by === "label"
          ? html`<${LabelLegend} labels=${labels} only=${only} onOnly=${setOnly} />`
          : html`<${Scale} points=${points} described=${map} by=${by} />`}</div><//>
        <${Panel} title=${selected.length ? "Selected" : "Nothing selected"} actions=${selected.length > 0 && html`<${Button} kind="small" onClick=${() => setSelected([])}>Clear<//>`}>
          <${Selection} collection=${collection} points=${points} described=${map} labels=${labels} selected=${selected} /><//>
        ${encoder && html`<${Panel} title="Neighbours of a query"><${Neighbours} collection=${collection} points=${points} onFound=${(rings, cross) => setQuery({ rings, cross })} /><//>`}
        <${Panel} title="Most frequent codes"><${Largest} points=${points} labels=${labels} onSelect=${setSelected} /><//>
        <${Panel} title="Draw another map"><div class="inside"><${Start} collection=${collection} running=${loaded.running} onDone=${onDone} drawn=${map} /></div><//>
      </div>
    </div>`;
}

export default function MapPage({ collections, collection, setParams }) {
  const { data, error, reload } = useLoaded(() => load(collection), [collection]);
  return html`
    <div class="head"><h1>Map</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name })} />`}
    </div>
    <div class="stack">
      <${Failure} error=${error} />
      ${!collection && html`<${NoCollection} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${data && collection && (!hasCodes(collections, collection)
        ? html`<${NoCodes} />`
        : data.map
        ? html`<${Drawn} key=${data.done[0].id} collection=${collection} loaded=${data} onDone=${reload} />`
        : !data.documents ? html`<${NoDocuments} />`
        : html`<${Panel} title="No map yet" what="A job lays out the distinct codes in the plane, with similar codes close together. The service answers requests meanwhile. 100,000 codes take a minute or two.">
            <div class="inside"><${Start} key=${collection} collection=${collection} running=${data.running} onDone=${reload} /></div><//>`)}
    </div>`;
}
