// The bits and buckets of a collection's codes, and whether they are good.
import { html, useState } from "../lib.js";
import { get, of } from "../api.js";
import { Bars, Heat } from "../charts.js";
import { count, figure, percent, plural } from "../format.js";
import { CollectionPicker, Empty, Failure, Field, Panel, Table, Tag, Waiting, useLoaded } from "../parts.js";

const entropyOf = (share) =>
  share <= 0 || share >= 1 ? 0 : -share * Math.log2(share) - (1 - share) * Math.log2(1 - share);
const range = (values) => [Math.min(...values), Math.max(...values)];

function Verdict({ good, children }) {
  return html`<p><${Tag} kind=${good ? "good" : "warn"}>${good ? "good" : "look closer"}<//> ${children}</p>`;
}

function Balance({ codes }) {
  const dead = codes.ones.flatMap((share, at) => (share === 0 || share === 1 ? [at] : []));
  const [least, most] = range(codes.ones);
  const even = codes.ones.filter((share) => share >= 0.3 && share <= 0.7).length;
  return html`<${Panel} title="Balance of bits" what="A bit tells most when it is 1 in half of the documents. A dead bit, always 0 or always 1, tells nothing.">
    <div class="inside stack">
      <${Bars} label=${`The share of documents in which each of ${codes.n_bits} bits is 1: from ${figure(least, 2)} to ${figure(most, 2)}`} values=${codes.ones} most=${1} line=${0.5}
        names=${codes.ones.map((_, at) => at)} xLabel="bit" kind=${(share) => (share === 0 || share === 1 ? "two" : "one")} tip=${(share, at) => `bit ${at}: 1 in ${percent(share)}`} />
      <${Verdict} good=${!dead.length && even >= 0.7 * codes.n_bits}>${even} of ${codes.n_bits} bits are 1 in 30 to 70 % of the documents; ${dead.length ? `dead: ${dead.slice(0, 20).join(", ")}` : "none is dead"}.<//>
    </div><//>`;
}

function Entropy({ codes }) {
  const bits = codes.ones.map(entropyOf);
  const sum = bits.reduce((total, one) => total + one, 0);
  return html`<${Panel} title="Entropy of bits" what="1 for a bit that is even, 0 for a dead one. Their sum bounds what a code can say.">
    <div class="inside stack">
      <${Bars} label=${`The entropy of each bit; their sum is ${figure(sum, 1)} of ${codes.n_bits}`} values=${bits} most=${1} names=${bits.map((_, at) => at)} xLabel="bit" tip=${(one, at) => `bit ${at}: ${figure(one)} bits`} />
      <${Verdict} good=${sum > 0.8 * codes.n_bits}>The bits alone carry ${figure(sum, 1)} of ${codes.n_bits}; whole codes carry ${figure(codes.entropy, 2)} of at most ${figure(Math.min(codes.n_bits, Math.log2(codes.documents)), 2)} for so many documents.<//>
    </div><//>`;
}

function Correlation({ codes }) {
  const values = codes.correlation;
  const pairs = values.flatMap((row, at) => row.slice(0, at).map((value, other) => [Math.abs(value), at * codes.step, other * codes.step])).sort((a, b) => b[0] - a[0]);
  const mean = pairs.reduce((sum, [value]) => sum + value, 0) / (pairs.length || 1);
  return html`<${Panel} title="Correlation of bits" what="Pearson's r of every two bits: red above 0, blue below. Bits that rise and fall together say the same twice.">
    <div class="inside stack">
      <${Heat} values=${values} label=${`Correlations of ${values.length} bits, ${figure(mean, 2)} on average without their sign`} />
      <${Verdict} good=${mean < 0.15 && (pairs[0]?.[0] ?? 0) < 0.7}>|r| is ${figure(mean)} on average, below .15 is good${pairs.length ? `; highest ${pairs.slice(0, 3).map(([value, one, other]) => `${figure(value, 2)} (bits ${other} and ${one})`).join(", ")}` : ""}.<//>
    </div><//>`;
}

function Occupancy({ codes, stats }) {
  const steps = Object.entries(stats.occupancy);
  const largest = codes.largest[0]?.documents ?? 0;
  const share = largest / (codes.documents || 1);
  const names = steps.map(([least]) => (least === "1" ? "1" : `${least}–${2 * least - 1}`));
  return html`<${Panel} title="Occupancy and collapse" what="How many codes are held by 1, by 2–3, by 4–7, … documents. A collapsed encoder has few codes, each with a crowd.">
    <div class="inside stack">
      <${Bars} label="Codes by the number of documents that hold them" values=${steps.map(([, codes_]) => codes_)} names=${names} xLabel="documents of a code" tip=${(value, at) => `${plural(value, "code")} with ${names[at]} ${names[at] === "1" ? "document" : "documents"}`} />
      <${Verdict} good=${share < 0.05}>${count(codes.distinct_codes)} distinct codes for ${count(codes.documents)} documents; ${count(codes.alone)} stand alone; the fullest code holds ${percent(share)}.<//>
    </div><//>`;
}

function Purity({ codes, field }) {
  const { purity } = codes;
  if (!purity)
    return html`<${Panel} title="Purity of buckets"><p class="nothing">No document has a label in the field “${field}”.</p><//>`;
  if (purity.mean == null)
    return html`<${Panel} title="Purity of buckets"><p class="nothing">No two labelled documents share a code.</p><//>`;
  const good = purity.mean > (1 + purity.by_chance) / 2;
  return html`<${Panel} title="Purity of buckets" what="Of the labelled documents that share a code, how many have its most frequent label. One code for everything would reach the share of the commonest label.">
    <div class="inside stack">
      <${Bars} label=${`Labelled documents by the purity of their code; ${figure(purity.mean, 2)} on average`} values=${purity.histogram} names=${purity.histogram.map((_, at) => `${10 * at}–${10 * (at + 1)}`)} xLabel="documents of the code that have its label, in %" tip=${(value, at) => `${plural(value, "document")} in codes of ${10 * at}–${10 * (at + 1)} %`} />
      <${Verdict} good=${good}>Mean ${percent(purity.mean)}; ${percent(purity.by_chance)} would be chance. ${count(purity.in_shared_codes)} of ${count(purity.labelled)} labelled documents share their code with another.<//>
    </div><//>`;
}

function Largest({ codes, link, collection }) {
  const columns = [
    { title: "Code", show: (one) => html`<a class="mono" href=${link("search", { collection, code: one.code })}>${one.code.length > 20 ? `${one.code.slice(0, 20)}…` : one.code}</a>` },
    { title: "Documents", number: true, show: (one) => count(one.documents) },
    { title: "Most are", class: "wide", show: (one) => one.label ?? "–" },
    { title: "Purity", number: true, show: (one) => percent(one.purity, 0) },
  ];
  return html`<${Panel} title="Fullest codes" what="Documents of one code come back together for every query near it.">
    <${Table} label="Fullest codes" columns=${columns} rows=${codes.largest} keyOf=${(one) => one.code} /><//>`;
}

function Plots({ collection, field, link }) {
  const { data, error } = useLoaded(
    async (signal) => {
      const query = new URLSearchParams({ label_field: field });
      const [codes, stats] = await Promise.all([get(`${of(collection)}/codes?${query}`, { signal }), get(`${of(collection)}/stats`, { signal })]);
      return { codes, stats };
    },
    [collection, field],
  );
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Waiting} what="Reading the codes" />`;
  const { codes, stats } = data;
  if (!codes.documents) return html`<${Empty} title="No codes yet">The collection has no documents.<//>`;
  return html`<div class="plots">
    <${Balance} codes=${codes} /><${Entropy} codes=${codes} />
    <${Occupancy} codes=${codes} stats=${stats} /><${Purity} codes=${codes} field=${field} />
    <${Correlation} codes=${codes} /><${Largest} codes=${codes} link=${link} collection=${collection} />
  </div>`;
}

export function Codes({ collections, collection, params, setParams, link }) {
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
    ${collection ? html`<${Plots} collection=${collection} field=${field} link=${link} />` : html`<${Empty} title="There are no codes">No collection has been made yet.<//>`}`;
}
