// Two evaluations beside each other: what changed, which queries won and lost, and both answers.
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { get, pathOf, post, text } from "./api.js";
import { count, figure, percent, plural, short, signed } from "./format.js";
import { GateForm, GateResults } from "./gate.js";
import { Button, Failure, Field, Note, Panel, Select, Table, Tag, Waiting, useLoaded } from "./parts.js";
import { fullName, measureOf, primaryOf } from "./report.js";

const PAGE = 25;

function Changes({ run, baseline, gate, onGate }) {
  const { data, error } = useLoaded(
    () => post(`v1/evaluations/${run.job.id}/compare`, { baseline: baseline.job.id, gate: gate.trim() || null }),
    [run.job.id, baseline.job.id, gate],
  );
  const columns = [
    { title: "Metric", class: "name", show: (change) => fullName(change.metric) },
    { title: "Before", number: true, show: (change) => figure(change.baseline) },
    { title: "Now", number: true, show: (change) => figure(change.value) },
    { title: "Difference", number: true, show: (change) => html`<b>${signed(change.difference)}</b>` },
    { title: "95 % interval", number: true, show: (change) => `${signed(change.interval[0])} to ${signed(change.interval[1])}` },
    { title: "p, after Holm", number: true, show: (change) => figure(change.adjusted, 4) },
    { title: "", show: (change) => html`<${Tag} kind=${change.adjusted > 0.05 ? "" : change.difference > 0 ? "good" : "bad"}>${change.adjusted > 0.05 ? "not significant" : change.difference > 0 ? "better" : "worse"}<//>` },
  ];
  return html`<${Panel} title="What changed" what="As served, over the queries that both reports have. Intervals are bootstrapped; p-values are from a paired permutation test.">
    ${data?.warning && html`<${Note} kind="bad"><b>${data.warning}</b><//>`}
    ${data && html`<${Table} label="Changes" columns=${columns} rows=${data.changes} keyOf=${(change) => change.metric} />`}
    <div class="inside stack">
      ${!data && !error && html`<${Waiting} what="Comparing" />`}
      <${Failure} error=${error} />
      ${data?.notes.filter((note) => note !== data.warning).map((note) => html`<${Note}>${note}<//>`)}
      ${data && html`<${GateResults} results=${data.gate} />`}
      <${GateForm} gate=${gate} onGate=${onGate} example=${`[metrics."${measureOf(primaryOf(run.report))}"]\nmin = 0.6\nmax_drop = 0.01`} />
    </div>
  <//>`;
}

/** The value of each query in both reports, the largest loss first. */
function pairs(report, baseline, metric) {
  const before = new Map(baseline.query_ids.map((id, place) => [id, baseline.per_query[metric].expected[place]]));
  return report.query_ids
    .flatMap((id, place) => (before.has(id) ? [{ id, now: report.per_query[metric].expected[place], before: before.get(id) }] : []))
    .map((row) => ({ ...row, difference: row.now - row.before }))
    .sort((a, b) => a.difference - b.difference);
}

function Balance({ rows }) {
  const wins = rows.filter((row) => row.difference > 1e-9).length;
  const losses = rows.filter((row) => row.difference < -1e-9).length;
  const all = rows.length || 1;
  return html`<div class="stack">
    <p><b>${plural(wins, "win")}</b>, <b>${plural(losses, "loss", "losses")}</b>, ${plural(rows.length - wins - losses, "tie")} of ${plural(rows.length, "query", "queries")}.</p>
    <div class="wins"><svg viewBox="0 0 100 10" preserveAspectRatio="none" class="chart" role="img" aria-label=${`${percent(wins / all, 0)} won, ${percent(losses / all, 0)} lost`}>
      <rect class="one" width=${(100 * wins) / all} height="10" /><rect class="two" x=${100 - (100 * losses) / all} width=${(100 * losses) / all} height="10" /></svg></div>
  </div>`;
}

/** The documents of one query in a run in TREC's format: query, Q0, document, rank, score, tag. */
const answersOf = (run, id) => run.split("\n").map((line) => line.split(" ")).filter(([query]) => query === id).slice(0, 10).map(([, , document]) => document);

/** The first answers to a query: those of the report's run, or of a search now if it has no run. */
async function firstAnswers(run, id, query) {
  const { collection } = run.job;
  if (!run.report.has_run) {
    if (!query) return [];
    const { text: words, vector, code } = query;
    const content = words != null ? { text: words } : vector != null ? { vector } : { code };
    const { hits } = await post(`${pathOf(collection)}/search`, { ...content, limit: 10, ranking: "hamming", with_text: true, with_payload: true });
    return hits;
  }
  const ids = answersOf(await text(`v1/evaluations/${run.job.id}?format=trec`), id);
  const { documents } = ids.length ? await post(`${pathOf(collection)}/documents:get`, { ids }) : { documents: [] };
  const known = new Map(documents.map((document) => [document.id, document]));
  return ids.map((document) => known.get(document) ?? { id: document, text: null, payload: {} });
}

function Answers({ title, documents }) {
  return html`<${Panel} title=${title}>
    <ul class="documents" tabindex="0" aria-label=${`Answers of ${title}`}>${documents.map((document) => html`<li key=${document.id}><span class="id">${document.id}</span> <span class="what">${short(String(document.payload.label ?? document.payload.labels ?? ""), 60)}</span><div>${document.text ? short(document.text, 160) : ""}</div></li>`)}</ul>
    ${!documents.length && html`<p class="nothing">The report has no answers to this query.</p>`}<//>`;
}

/** Both answers to a query, below a long table: they take the focus, and Escape returns it. */
function Drill({ run, baseline, id, nameOf, onClose }) {
  const region = useRef(null);
  const { data, error } = useLoaded(async () => {
    const { queries } = await get(`v1/evaluations/${run.job.id}/queries`).catch(() => ({ queries: [] }));
    const query = queries.find((each) => each.id === id);
    const [left, right] = await Promise.all([firstAnswers(run, id, query), firstAnswers(baseline, id, query)]);
    return { left, right, query };
  }, [id]);
  useEffect(() => region.current.focus(), []);
  useEffect(() => region.current.scrollIntoView({ block: "start" }), [data]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    onClose();
  };
  const query = data?.query;
  return html`<section class="stack" tabindex="-1" ref=${region} aria-label=${`Both answers to ${id}`} onKeyDown=${onKeyDown}>
    <div><${Button} kind="small" onClick=${onClose}><kbd>Esc</kbd> Back to the queries<//></div>
    <${Failure} error=${error} />
    ${!data && !error && html`<${Waiting} what="Reading both answers" />`}
    ${data && html`<${Note}><b class="break">${id}</b> ${query?.label ?? query?.labels?.join(", ") ?? ""}${query?.text ? html`<p>${short(query.text, 500)}</p>` : ""}<//>
      <div class="pair"><${Answers} title=${nameOf(baseline)} documents=${data.right} /><${Answers} title=${nameOf(run)} documents=${data.left} /></div>`}
  </section>`;
}

function Queries({ run, baseline, nameOf }) {
  const shared = run.report.metrics.map(measureOf).filter((name) => baseline.report.per_query[name]);
  const served = run.report.metrics.length ? measureOf(primaryOf(run.report)) : "";
  const [metric, setMetric] = useState(shared.includes(served) ? served : shared[0] ?? "");
  const [from, setFrom] = useState("losses");
  const [shown, setShown] = useState(PAGE);
  const [id, setId] = useState(null);
  const opener = useRef(null);
  const open = (event, opened) => {
    opener.current = event.currentTarget;
    setId(opened);
  };
  const close = () => {
    setId(null);
    opener.current?.focus();
  };
  const rows = useMemo(() => (metric ? pairs(run.report, baseline.report, metric) : []), [metric]);
  if (!metric) return html`<${Note} kind="warn">The two reports have no metric in common.<//>`;
  const listed = (from === "losses" ? rows : [...rows].reverse()).slice(0, shown);
  const columns = [
    { title: "Query", class: "wide", show: (row) => row.id },
    { title: "Before", number: true, show: (row) => figure(row.before) },
    { title: "Now", number: true, show: (row) => figure(row.now) },
    { title: "Difference", number: true, show: (row) => signed(row.difference) },
    { title: "", number: true, show: (row) => html`<${Button} kind="small" onClick=${(event) => open(event, row.id)}>Both answers<//>` },
  ];
  return html`<${Panel} title="Query by query" what="Tie-averaged.">
      <div class="inside stack">
        <div class="row"><${Field} label="Metric"><${Select} value=${metric} options=${shared.map((name) => [name, fullName(name)])} onChange=${setMetric} /><//>
          <${Field} label="Order"><${Select} value=${from} options=${[["losses", "largest losses first"], ["wins", "largest wins first"]]} onChange=${setFrom} /><//></div>
        <${Balance} rows=${rows} />
      </div>
      <${Table} label="Queries" columns=${columns} rows=${listed} keyOf=${(row) => row.id} marked=${(row) => row.id === id} empty="The reports have no query in common." />
      ${shown < rows.length && html`<div class="inside"><${Button} kind="small" onClick=${() => setShown(shown + PAGE)}>Show more of ${count(rows.length)}<//></div>`}
    <//>
    ${id !== null && html`<${Drill} key=${id} run=${run} baseline=${baseline} id=${id} nameOf=${nameOf} onClose=${close} />`}`;
}

export function Comparison({ run, baseline, nameOf }) {
  const [gate, setGate] = useState("");
  return html`<${Changes} run=${run} baseline=${baseline} gate=${gate} onGate=${setGate} /><${Queries} run=${run} baseline=${baseline} nameOf=${nameOf} />`;
}
