// The bits and buckets of a collection's codes, and whether they are good.
import { html, useState } from "../lib.js";
import { get, pathOf } from "../api.js";
import { Bars, Heat } from "../charts.js";
import { count, figure, percent, plural } from "../format.js";
import { CollectionPicker, Failure, Field, NoCodes, NoCollection, NoDocuments, Panel, Table, Tag, Waiting, hasCodes, useLoaded } from "../parts.js";

const entropyOf = (share) =>
  share <= 0 || share >= 1 ? 0 : -share * Math.log2(share) - (1 - share) * Math.log2(1 - share);
const range = (values) => [Math.min(...values), Math.max(...values)];

function Verdict({ good, children }) {
  return html`<p><${Tag} kind=${good ? "good" : "warn"}>${good ? "good" : "check"}<//> ${children}</p>`;
}

function Balance({ codes }) {
  const dead = codes.ones.flatMap((share, bit) => (share === 0 || share === 1 ? [bit] : []));
  const [least, most] = range(codes.ones);
  const even = codes.ones.filter((share) => share >= 0.3 && share <= 0.7).length;
  return html`<${Panel} title="Balance of bits" what="A bit carries most information if it is 1 in half of the documents. A dead bit is always 0 or always 1 and carries none.">
    <div class="inside stack">
      <${Bars} label=${`The share of documents in which each of ${codes.n_bits} bits is 1: from ${figure(least, 2)} to ${figure(most, 2)}`} values=${codes.ones} most=${1} line=${0.5}
        names=${codes.ones.map((_, bit) => bit)} xLabel="bit" kind=${(share) => (share === 0 || share === 1 ? "two" : "one")} tip=${(share, bit) => `bit ${bit}: 1 in ${percent(share)}`} />
      <${Verdict} good=${!dead.length && even >= 0.7 * codes.n_bits}>${even} of ${codes.n_bits} bits are 1 in 30 to 70 % of the documents; ${dead.length ? `dead bits: ${dead.slice(0, 20).join(", ")}` : "no bit is dead"}.<//>
    </div><//>`;
}

function Entropy({ codes }) {
  const bits = codes.ones.map(entropyOf);
  const sum = bits.reduce((total, entropy) => total + entropy, 0);
  return html`<${Panel} title="Entropy of bits" what="1 for a balanced bit, 0 for a dead one. The sum limits how much information a code can carry.">
    <div class="inside stack">
      <${Bars} label=${`The entropy of each bit; their sum is ${figure(sum, 1)} of ${codes.n_bits}`} values=${bits} most=${1} names=${bits.map((_, bit) => bit)} xLabel="bit" tip=${(entropy, bit) => `bit ${bit}: ${figure(entropy)} bits`} />
      <${Verdict} good=${sum > 0.8 * codes.n_bits}>The entropies of the bits add up to ${figure(sum, 1)} of ${codes.n_bits}. Whole codes have an entropy of ${figure(codes.entropy, 2)} of at most ${figure(Math.min(codes.n_bits, Math.log2(codes.documents)), 2)} for this number of documents.<//>
    </div><//>`;
}

function Correlation({ codes }) {
  const values = codes.correlation;
  const pairs = values.flatMap((row, bit) => row.slice(0, bit).map((value, other) => [Math.abs(value), bit * codes.step, other * codes.step])).sort((a, b) => b[0] - a[0]);
  const mean = pairs.reduce((sum, [value]) => sum + value, 0) / (pairs.length || 1);
  return html`<${Panel} title="Correlation of bits" what="Pearson's r of each pair of bits: red above 0, blue below. Correlated bits repeat the same information.">
    <div class="inside stack">
      <${Heat} values=${values} label=${`Correlations of ${values.length} bits; the mean of |r| is ${figure(mean, 2)}`} />
      <${Verdict} good=${mean < 0.15 && (pairs[0]?.[0] ?? 0) < 0.7}>The mean of |r| is ${figure(mean)}; below .15 is good${pairs.length ? `. The largest |r|: ${pairs.slice(0, 3).map(([value, bit, other]) => `${figure(value, 2)} (bits ${other} and ${bit})`).join(", ")}` : ""}.<//>
    </div><//>`;
}

function Occupancy({ codes, stats }) {
  const steps = Object.entries(stats.occupancy);
  const largest = codes.largest[0]?.documents ?? 0;
  const share = largest / (codes.documents || 1);
  const names = steps.map(([least]) => (least === "1" ? "1" : `${least}–${2 * least - 1}`));
  return html`<${Panel} title="Documents per code" what="How many codes belong to 1, to 2–3, to 4–7, … documents. Codes have collapsed if there are few of them, each with many documents.">
    <div class="inside stack">
      <${Bars} label="Codes by their number of documents" values=${steps.map(([, held]) => held)} names=${names} xLabel="documents per code" tip=${(value, place) => `${plural(value, "code")} with ${names[place]} ${names[place] === "1" ? "document" : "documents"}`} />
      <${Verdict} good=${share < 0.05 || largest === 1}>${plural(codes.distinct_codes, "distinct code")} for ${plural(codes.documents, "document")}. ${count(codes.alone)} codes belong to one document each; the most frequent code belongs to ${plural(largest, "document")}, ${percent(share)} of all.<//>
    </div><//>`;
}

function Purity({ codes, field }) {
  const { purity } = codes;
  if (!purity)
    return html`<${Panel} title="Purity of buckets"><p class="nothing">No document has a label in the field “${field}”.</p><//>`;
  if (purity.mean == null)
    return html`<${Panel} title="Purity of buckets"><p class="nothing">No two labelled documents share a code.</p><//>`;
  const good = purity.mean > (1 + purity.by_chance) / 2;
  return html`<${Panel} title="Purity of buckets" what="A bucket is all documents with the same code. Its purity is the share of its labelled documents that have its most frequent label. If all documents were in one bucket, that would be the share of the most frequent label.">
    <div class="inside stack">
      <${Bars} label=${`Labelled documents by the purity of their bucket; ${figure(purity.mean, 2)} on average`} values=${purity.histogram} names=${purity.histogram.map((_, tenth) => `${10 * tenth}–${10 * (tenth + 1)}`)} xLabel="purity of the bucket, in %" tip=${(value, tenth) => `${plural(value, "document")} in buckets of ${10 * tenth}–${10 * (tenth + 1)} %`} />
      <${Verdict} good=${good}>The mean is ${percent(purity.mean)}; chance would give ${percent(purity.by_chance)}. ${count(purity.in_shared_codes)} of ${count(purity.labelled)} labelled documents share their code with another.<//>
    </div><//>`;
}

function Largest({ codes, link, collection }) {
  const columns = [
    { title: "Code", show: (bucket) => html`<a class="mono" href=${link("search", { collection, code: bucket.code })}>${bucket.code.length > 20 ? `${bucket.code.slice(0, 20)}…` : bucket.code}</a>` },
    { title: "Documents", number: true, show: (bucket) => count(bucket.documents) },
    { title: "Most frequent label", class: "wide", show: (bucket) => bucket.label ?? "–" },
    { title: "Purity", number: true, show: (bucket) => percent(bucket.purity, 0) },
  ];
  return html`<${Panel} title="Most frequent codes" what="Documents with the same code have the same distance from every query.">
    <${Table} label="Most frequent codes" columns=${columns} rows=${codes.largest} keyOf=${(bucket) => bucket.code} /><//>`;
}

function Plots({ collection, field, link }) {
  const { data, error } = useLoaded(
    async (signal) => {
      const query = new URLSearchParams({ label_field: field });
      const [codes, stats] = await Promise.all([get(`${pathOf(collection)}/codes?${query}`, { signal }), get(`${pathOf(collection)}/stats`, { signal })]);
      return { codes, stats };
    },
    [collection, field],
  );
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Waiting} what="Reading the codes" />`;
  const { codes, stats } = data;
  if (!codes.documents) return html`<${NoDocuments} />`;
  return html`<div class="plots">
    <${Balance} codes=${codes} /><${Entropy} codes=${codes} />
    <${Occupancy} codes=${codes} stats=${stats} /><${Purity} codes=${codes} field=${field} />
    <${Correlation} codes=${codes} /><${Largest} codes=${codes} link=${link} collection=${collection} />
  </div>`;
}

export default function Codes({ collections, collection, params, setParams, link }) {
  const [field, setField] = useState(params.field ?? "label");
  const [typed, setTyped] = useState(field);
  return html`
    <div class="head"><h1>Codes</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name })} />
        <form class="row" onSubmit=${(event) => { event.preventDefault(); setField(typed); }}>
          <${Field} label="Label field" class="inline"><input value=${typed} size="10" onInput=${(event) => setTyped(event.currentTarget.value)} /><//>
          ${typed !== field && html`<button class="button small" type="submit">Use this label field</button>`}
        </form>`}
    </div>
    ${collection && !hasCodes(collections, collection) ? html`<${NoCodes} />` : collection ? html`<${Plots} collection=${collection} field=${field} link=${link} />` : html`<${NoCollection} />`}`;
}
