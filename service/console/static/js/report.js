// A report of an evaluation: figures with intervals, plots, classes and the worst queries.
import { html, useState } from "./lib.js";
import { get, post, save, text } from "./api.js";
import { Legend, Lines } from "./charts.js";
import { count, figure, percent, plural, short } from "./format.js";
import { GateForm, GateResults } from "./gate.js";
import { Failure, Note, Panel, Table, useLoaded } from "./parts.js";

const FORMATS = [["json", "application/json"], ["markdown", "text/markdown"], ["html", "text/html"], ["junit", "application/xml"], ["trec", "text/plain"]];
/** The name of a metric with its ranking, as the values of single queries are named. */
export const measureOf = ({ ranking, name }) => (ranking === "hamming" ? name : `${ranking} ${name}`);

/** The name of a measure with its ranking, Hamming as well. */
export const fullName = (measure) => (measure.includes(" ") ? measure : `hamming ${measure}`);

/** The first metric of the ranking that searches use. */
export const primaryOf = (report) => report.metrics.find((metric) => metric.ranking === report.subject.ranking) ?? report.metrics[0];

const ENDINGS = { json: "json", markdown: "md", html: "html", junit: "xml", trec: "trec" };

function Figures({ report }) {
  const columns = [
    { title: "Metric", class: "name", show: (metric) => metric.name },
    { title: "Ranking", show: (metric) => metric.ranking },
    { title: "As served", number: true, show: (metric) => figure(metric.served) },
    { title: `${percent(report.confidence, 0)} interval`, number: true, show: (metric) => metric.interval ? `${figure(metric.interval[0])} – ${figure(metric.interval[1])}` : "–" },
    { title: "Tie-averaged", number: true, show: (metric) => html`<b>${figure(metric.expected)}</b>` },
    { title: "Best and worst order of ties", number: true, show: (metric) => metric.worst == null ? "–" : `${figure(metric.worst)} – ${figure(metric.best)}` },
    { title: "Classifier baseline", number: true, show: (metric) => figure(report.classifier_baseline?.find((baseline) => baseline.name === metric.name)?.expected) },
  ];
  const low = new Map(report.metrics.filter((metric) => metric.ceiling != null && metric.ceiling < 0.9).map((metric) => [metric.name, figure(metric.ceiling)]));
  return html`<${Table} label="Figures" columns=${columns} rows=${[...report.metrics, ...(report.baselines ?? [])]} keyOf=${measureOf} />
    ${low.size > 0 && html`<p class="nothing">With these queries even an ideal ranking reaches only ${[...low].map(([name, value]) => `${value} in ${name}`).join(", ")}.</p>`}
    ${report.metrics.some((metric) => metric.name.startsWith("mAP")) && html`<p class="nothing">mAP@k averages P@i over the relevant documents found in the list; mAP-trec divides by all relevant documents; mAP-11pt averages the precision at eleven recalls.</p>`}`;
}

function Save({ run }) {
  const [error, setError] = useState(null);
  const fetchAs = async (format, type) => {
    setError(null);
    try {
      const content = format === "json" ? JSON.stringify(run.report, null, 1) : await text(`v1/evaluations/${run.job.id}?format=${format}`);
      save(`${run.report.subject.name}-${run.job.id.slice(0, 8)}.${ENDINGS[format]}`, content, type);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`${FORMATS.filter(([name]) => name !== "trec" || run.report.has_run).map(([name, type]) => html`<button type="button" class="button small" onClick=${() => fetchAs(name, type)}>${name}</button>`)}
    <${Failure} error=${error} />`;
}

function Curve({ precision }) {
  const points = precision.k.map((k, place) => [k, precision.expected[place], precision.worst[place], precision.best[place]]);
  return html`<${Panel} title="Precision by length of the list" what="By Hamming distance, tie-averaged. The band lies between the worst and the best order of ties. With good codes, precision stays high as k grows.">
    <div class="inside"><${Lines} label="Mean precision at k" log=${true} most=${1} xLabel="k" series=${[{ name: "P@k", points }]} /></div><//>`;
}

function Distances({ shape }) {
  const sum = (values) => values.reduce((total, value) => total + value, 0) || 1;
  const last = Math.max(1, shape.others.findLastIndex((value) => value > 0), shape.relevant.findLastIndex((value) => value > 0));
  const share = (values) => values.slice(0, last + 1).map((value, distance) => [distance, value / sum(values)]);
  return html`<${Panel} title="Pairs by distance" what="Relevant pairs should lie to the left of the others. The less the two overlap, the better the codes separate them.">
    <div class="inside stack"><${Lines} label="Share of relevant and other pairs at each Hamming distance" xLabel="Hamming distance" series=${[{ name: "relevant", points: share(shape.relevant) }, { name: "others", points: share(shape.others) }]} />
      <${Legend} names=${["relevant", "others"]} /></div><//>`;
}

function Worst({ report }) {
  return html`<${Panel} title="Worst queries" what=${`The queries with the lowest ${fullName(measureOf(primaryOf(report)))}, and their first hits.`}>
    ${report.worst_queries.map((query) => html`<details class="cluster" key=${query.id}>
      <summary><b class="break">${query.id}</b> ${query.labels.length > 0 && `${query.labels.join(", ")} · `}${figure(query.value)} · ${short(query.text, 110)}</summary>
      <ol>${query.hits.map((hit) => html`<li key=${hit.id}><span>${hit.relevant ? "✓" : "✗"}</span><div><b class="break">${hit.id}</b> <span class="what">${[hit.labels.join(", "), hit.score == null ? plural(hit.distance, "bit") : `score ${figure(hit.score)}`].filter(Boolean).join(" · ")}</span></div><p>${short(hit.text, 160)}</p></li>`)}</ol>
      ${(query.answers ?? []).map((answer) => html`<p key=${answer.id}>Right answer <b class="break">${answer.id}</b>: ${Object.entries(answer.ranks).map(([ranking, rank]) => `${rank === null ? "beyond 1,000" : `rank ${count(rank)}`} by ${ranking}`).join(", ")}; ${plural(answer.distance, "bit")}; ${answer.words.length ? `has ${answer.words.join(" ")}` : "has no word of the query"}${answer.missing_words.length ? `, lacks ${answer.missing_words.join(" ")}` : ""}.</p>`)}
    </details>`)}
    ${!report.worst_queries.length && html`<p class="nothing">None.</p>`}<//>`;
}

function Incoherent({ coherence }) {
  const columns = [
    { title: "Level", number: true, show: (row) => `${figure(row.level)} [${figure(row.interval[0])}, ${figure(row.interval[1])}]` },
    { title: "Document", class: "wide", show: (row) => html`<b class="break">${row.id}</b> ${short(row.text, 110)}` },
    { title: "Nearest vector", show: (row) => row.teacher_nearest },
    { title: "Its rank by code", number: true, show: (row) => count(Math.round(row.rank)) },
    { title: "Nearest code", show: (row) => row.encoder_nearest },
  ];
  const level = `Coherence level ${figure(coherence.level)} [${figure(coherence.interval[0])}, ${figure(coherence.interval[1])}] with ${coherence.teacher}, of ${plural(coherence.documents, "document")}: 1 is the same order by codes as by vectors, .667 is chance. Between encoders of one method it follows P@100, across methods it need not.${coherence.learned ? ` These are values of training data: the encoder learned from ${count(coherence.learned)}.` : ""}`;
  return html`<${Panel} class="across" title="Where codes do not rank as vectors do" what=${level}><${Table} label="Documents of the lowest levels" columns=${columns} rows=${coherence.worst} keyOf=${(row) => row.id} /><//>`;
}

function Classes({ report }) {
  const name = measureOf(primaryOf(report));
  const columns = [
    { title: "Class", class: "wide", show: (row) => row.label },
    { title: "Queries", number: true, show: (row) => count(row.queries) },
    { title: "Documents", number: true, show: (row) => count(row.documents) },
    { title: fullName(name), number: true, show: (row) => figure(row.expected[name]) },
  ];
  const rows = [...report.classes].sort((a, b) => (a.expected[name] ?? 0) - (b.expected[name] ?? 0)).slice(0, 100);
  return html`<${Panel} title="Classes" what="Worst first."><${Table} label="Classes" columns=${columns} rows=${rows} keyOf=${(row) => row.label} /><//>`;
}

/** A gate of this report alone: the lowest values that are accepted. */
function Gate({ run }) {
  const [gate, setGate] = useState("");
  const { data, error } = useLoaded(async (signal) => (gate.trim() ? post(`v1/evaluations/${run.job.id}/compare`, { gate }, { signal }) : null), [gate]);
  const measure = run.report.coherence ? "coherence" : `"${measureOf(primaryOf(run.report))}"`;
  return html`<div class="stack">${data && html`<${GateResults} results=${data.gate} />`}<${Failure} error=${error} />
    <${GateForm} gate=${gate} onGate=${setGate} example=${`[metrics.${measure}]\nmin = 0.6`} /></div>`;
}

export function Report({ run }) {
  const { report } = run;
  const gate = report.gate ?? [];
  const { unlabelled, ranking, codes_weight: weight } = report.subject;
  return html`
    ${report.warning && html`<${Note} kind="bad"><b>${report.warning}</b><//>`}
    <${Panel} title=${report.subject.name} what=${`${plural(report.queries, "query", "queries")} against ${plural(report.subject.documents, "document")}${unlabelled ? ` (${count(unlabelled)} without a label)` : ""}; searches rank by ${ranking}${weight == null ? "" : `, weight of codes ${weight}`}; generation ${count(report.subject.generation)}. Relevance: ${report.relevance}.`} actions=${html`<${Save} run=${run} />`}>
      <${Figures} report=${report} />
      ${gate.length > 0 && html`<div class="inside stack"><${GateResults} results=${gate} /></div>`}
      ${report.notes.length > 0 && html`<div class="inside stack">${report.notes.map((note) => html`<${Note}>${note}<//>`)}</div>`}
      <div class="inside"><${Gate} run=${run} /></div>
    <//>
    <div class="plots"><${Curve} precision=${report.shape.precision} /><${Distances} shape=${report.shape} />${report.classes.length > 0 && html`<${Classes} report=${report} />`}${report.coherence && html`<${Incoherent} coherence=${report.coherence} />`}<${Worst} report=${report} /></div>`;
}

/** The figures of evaluations by the number of labels that their encoders were trained on. */
export function Supervision({ runs }) {
  const { data } = useLoaded(async (signal) => {
    const { encoders } = await get("v1/encoders", { signal });
    return Promise.all(encoders.slice(0, 60).map((encoder) => get(`v1/encoders/${encodeURIComponent(encoder.name)}`, { signal })));
  }, []);
  if (!data) return null;
  const labelled = new Map(data.map((encoder) => [encoder.fingerprint, encoder.trained_on?.labelled]));
  const measured = runs.flatMap(({ report }) => {
    const n = labelled.get(report.subject.fingerprint);
    const { interval, expected } = primaryOf(report);
    const name = fullName(measureOf(primaryOf(report)));
    return typeof n === "number" && n > 0 ? [{ n, metric: name, point: interval ? [n, expected, ...interval] : [n, expected], bits: report.subject.n_bits, collection: report.subject.name }] : [];
  });
  const groups = new Map();
  for (const run of measured) {
    const key = `${run.metric}, ${run.bits} bits`;
    groups.set(key, [...(groups.get(key) ?? []), run.point]);
  }
  const series = [...groups].map(([name, points]) => ({ name, points: points.sort((a, b) => a[0] - b[0]) })).slice(0, 3);
  const columns = [
    { title: "Labels trained on", number: true, show: (run) => count(run.n) },
    { title: "Collection", class: "wide", show: (run) => run.collection },
    { title: "Figure, tie-averaged", number: true, show: (run) => `${run.metric} ${figure(run.point[1])}` },
  ];
  return html`<${Panel} title="Quality by number of labels" what="Each point is an evaluation, at the number of labels that its encoder was trained on. Where the curve is flat, more labels do not help.">
    ${series.length
      ? html`<div class="inside stack"><${Lines} label="The first metric of each evaluation, by the number of labels that its encoder was trained on" series=${series} xLabel="labels trained on" log=${true} /><${Legend} names=${series.map((line) => line.name)} /></div>
        <${Table} label="Evaluations by labels" columns=${columns} rows=${[...measured].sort((a, b) => a.n - b.n)} />`
      : html`<p class="nothing">No encoder in these reports records how many labels it was trained on.</p>`}
  <//>`;
}
