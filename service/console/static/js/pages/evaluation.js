// Evaluations: run one, look at its report, compare two.
import { html, useState } from "../lib.js";
import { get, jobsOf } from "../api.js";
import { ago, count, figure } from "../format.js";
import { CollectionPicker, Empty, Failure, Field, Note, Panel, Progress, Select, Table, Tag, Waiting, useLoaded } from "../parts.js";
import { Comparison } from "../comparison.js";
import { Report, Supervision, fullName, measureOf, primaryOf } from "../report.js";
import { Runner } from "../runner.js";

/** The evaluations, latest first; finished ones with their reports. */
async function load() {
  const jobs = await jobsOf("evaluation", "", 60);
  return Promise.all(jobs.map(async (job) => {
    if (job.state !== "done") return { job };
    const { report } = await get(`v1/evaluations/${job.id}`).catch(() => ({}));
    return { job, report };
  }));
}

// Only figures tell reports apart that were made of one collection in the same minute.
const nameOf = ({ job, report }) => {
  const first = primaryOf(report);
  return [[report.subject.name, report.subject.encoder].filter(Boolean).join(" "), ago(job.finished), first && `${fullName(measureOf(first))} ${figure(first.expected)}`, report.warning && "training data"].filter(Boolean).join(" · ");
};

function Runs({ runs, shown, setParams }) {
  const columns = [
    { title: "Collection", class: "name", show: ({ job }) => html`<span class="break">${job.collection}</span>` },
    { title: "Encoder", show: ({ report }) => report?.subject.encoder ?? "–" },
    { title: "State", show: ({ job }) => job.finished ? html`<${Tag} kind=${job.state === "done" ? "good" : "bad"} title=${job.error?.detail}>${job.state}<//>` : html`<${Progress} job=${job} />` },
    { title: "Queries", number: true, show: ({ report }) => count(report?.queries) },
    { title: "Figures, tie-averaged", class: "wide", show: ({ job, report }) => report ? `${report.warning ? "training data: " : ""}${report.metrics.slice(0, 4).map((metric) => `${fullName(measureOf(metric))} ${figure(metric.expected)}`).join(", ")}` : job.error?.detail ?? "" },
    { title: "Finished", number: true, show: ({ job }) => ago(job.finished ?? job.created) },
    { title: "", number: true, show: (run) => run.report && html`<div class="actions">
      ${shown && run !== shown && html`<button type="button" class="button small" onClick=${() => setParams({ run: shown.job.id, against: run.job.id })}>Compare</button>`}
      <button type="button" class="button small" onClick=${() => setParams({ run: run.job.id, against: "" })}>Open</button></div>` },
  ];
  return html`<${Panel} title="Reports"><${Table} stacks label="Reports" columns=${columns} rows=${runs} keyOf=${({ job }) => job.id}
    marked=${({ job }) => job.id === shown?.job.id} empty="No evaluation has run yet." /><//>`;
}

export default function Evaluation({ access, collections, collection, params, setParams }) {
  const { data, error, reload } = useLoaded(load, []);
  const [running, setRunning] = useState(false);
  const done = (data ?? []).filter((run) => run.report);
  const shown = done.find((run) => run.job.id === params.run) ?? done[0];
  const against = done.find((run) => run.job.id === params.against && run !== shown);
  // Reports of the same collection share their queries more often, so they come first.
  const isOther = (run) => run.job.collection !== shown?.job.collection;
  const others = done.filter((run) => run !== shown).sort((a, b) => isOther(a) - isOther(b));
  return html`
    <div class="head"><h1>Evaluation</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name })} />
        <button type="button" class="button primary" aria-expanded=${String(running)} onClick=${() => setRunning(!running)}>Run an evaluation</button>`}
    </div>
    <div class="stack">
      ${running && html`<${Runner} key=${collection} collection=${collection} limits=${access.limits} onDone=${(id) => { reload(); setRunning(false); setParams({ run: id, against: "" }); }} />`}
      <${Failure} error=${error} />
      ${!data && !error && html`<${Waiting} />`}
      ${data && !data.length && !running && html`<${Empty} title="No evaluation yet">An evaluation searches with queries whose relevant documents are known, and measures how many of the hits are relevant.<//>`}
      ${data?.length > 0 && html`<${Runs} runs=${data} shown=${shown} setParams=${setParams} />`}
      ${data && params.run && shown?.job.id !== params.run && !data.some((run) => run.job.id === params.run) && html`<${Note} kind="warn">There is no evaluation ${params.run}.<//>`}
      ${shown && html`
        <div class="row">
          <${Field} label="Report"><${Select} value=${shown.job.id} onChange=${(run) => setParams({ run, against: "" })} options=${done.map((run) => [run.job.id, nameOf(run)])} /><//>
          ${others.length > 0 && html`<${Field} label="Compare with"><${Select} value=${against?.job.id ?? ""} onChange=${(id) => setParams({ against: id })} options=${[["", "none"], ...others.map((run) => [run.job.id, nameOf(run)])]} /><//>`}
        </div>
        ${against
          ? html`<${Comparison} key=${`${shown.job.id} ${against.job.id}`} run=${shown} baseline=${against} nameOf=${nameOf} />`
          : html`<${Report} key=${shown.job.id} run=${shown} />`}`}
      ${done.length > 0 && html`<${Supervision} runs=${done} />`}
    </div>`;
}
