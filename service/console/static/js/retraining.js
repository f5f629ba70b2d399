// Retraining: a job trains an encoder from the labels, a gate checks it, and a person confirms.
import { html, useEffect, useRef, useState } from "./lib.js";
import { get, jobsOf, pathOf, post } from "./api.js";
import { ago, count, figure, plural, signed } from "./format.js";
import { useJob } from "./jobs.js";
import { Button, Failure, Field, Note, Panel, Progress, Table, Tag, Waiting, useLoaded } from "./parts.js";

const FEWEST_LABELS = 10;
const WAITING = "waiting for confirmation";
const KINDS = { [WAITING]: "warn", refused: "bad", live: "good" };

function Trial({ trial }) {
  const columns = [
    { title: "Metric", class: "name", show: ([name]) => name },
    { title: "In use", number: true, show: ([name]) => figure(trial.current[name]) },
    { title: "New", number: true, show: ([name]) => html`<b>${figure(trial.candidate[name])}</b>` },
    { title: "Difference", number: true, show: ([name]) => signed(trial.candidate[name] - trial.current[name]) },
  ];
  return html`<${Table} label="Figures of the trial" columns=${columns} rows=${Object.entries(trial.candidate)} keyOf=${([name]) => name} />
    <p class="nothing">Tie-averaged over ${plural(trial.queries, "query", "queries")} whose labels were held out; p = ${figure(trial.p_value, 3)}. The gate requires a gain of ${signed(trial.min_gain)} in mAP@100: ${trial.passed ? "passed" : "failed"}.</p>
    ${trial.uncertainty && html`<${Note} kind="warn">The gate ${trial.uncertainty}.<//>`}
    ${(trial.warnings ?? []).map((sentence) => html`<${Note} kind="warn" key=${sentence}>Note that ${sentence}.<//>`)}`;
}

/** What became of a retraining: confirmed, it is live unless its alias has moved on. */
function stateOf({ result }, indexed, aliases) {
  if (result.state !== "live" && !(result.state === WAITING && indexed.has(result.into))) return result.state;
  const serves = aliases.find((each) => each.alias === result.alias)?.collection;
  return !result.alias || serves === result.into ? "live" : "replaced";
}

function Outcome({ job, state, onDone, reload }) {
  const [problem, setProblem] = useState(null);
  const [done, setDone] = useState(null);
  const { result } = job;
  const { busy, job: running, error, run } = useJob(() => {
    setDone(`Collection ${result.into} is complete${result.alias ? `, and the alias ${result.alias} now points to it` : ""}.`);
    onDone();
    reload();
  });
  const confirm = () => {
    setProblem(null);
    run(() => post(`v1/jobs/${job.id}/confirm`));
  };
  const takeBack = async () => {
    setProblem(null);
    try {
      const { alias, collection } = await post(`v1/jobs/${job.id}/take-back`);
      setDone(`The alias ${alias} points to ${collection} again.`);
      onDone();
    } catch (failure) {
      setProblem(failure);
    }
    reload();
  };
  return html`<${Panel} title=${`Encoder ${result.encoder ?? "refused"}`} actions=${html`<${Tag} kind=${KINDS[state]}>${state}<//>`}>
    <${Trial} trial=${result.trial} />
    <div class="inside stack">
      <${Failure} error=${error ?? problem} />
      ${done && html`<div role="status"><${Note} kind="good">${done}<//></div>`}
      ${running && html`<${Progress} job=${running} />`}
      <div class="actions">
        ${state === WAITING && !busy && html`<${Button} kind="primary" onClick=${confirm}>Reindex with this encoder${result.alias ? ` and move ${result.alias}` : ""}<//>`}
        ${result.alias && state === "live" && html`<${Button} onClick=${takeBack}>Move the alias back<//>`}
      </div>
    </div><//>`;
}

/** An outcome; that of the job which this page waited for takes the focus, unless it is elsewhere by now. */
function Finished({ job, isAwaited, ...more }) {
  const element = useRef(null);
  useEffect(() => {
    const { activeElement } = document;
    if (isAwaited && (activeElement === document.body || activeElement.closest("form.retrain"))) element.current.focus();
  }, []);
  return html`<div class="stack" tabindex="-1" ref=${element} role="group" aria-label=${`Training of ${ago(job.finished)}`}>
    <p class="what">Trained ${ago(job.finished)}</p><${Outcome} job=${job} ...${more} /></div>`;
}

/** The first encoder of a collection that is searched by words alone. */
function FirstTraining({ collection, field }) {
  const [into, setInto] = useState(`${collection}-coded`);
  const [done, setDone] = useState(null);
  const { busy, job, error, run } = useJob((finished) => setDone(finished.result));
  const start = (event) => {
    event.preventDefault();
    setDone(null);
    run(() => post(`${pathOf(collection)}/train`, { into: into.trim(), label_field: field || null }));
  };
  return html`<${Panel} title="Train an encoder" what="This collection has no encoder yet, and is searched by words alone. A separate process learns codes from its texts and labels, and writes the documents into another collection, which is searched by both. Searches continue throughout.">
    <form class="inside stack" onSubmit=${start}>
      <div class="row">
        <${Field} label="New collection"><input size="20" value=${into} onInput=${(event) => setInto(event.currentTarget.value)} /><//>
        <button class="button primary" type="submit" disabled=${busy || !into.trim()}>Train</button>
        ${job && busy && html`<${Progress} job=${job} />`}
      </div>
      <${Failure} error=${error} />
      ${done && html`<div role="status"><${Note} kind="good">Collection ${done.collection} is complete: ${plural(done.documents, "document")}, codes of ${done.n_bits} bits by ${done.method}.<//></div>`}
    </form><//>`;
}

export function Retraining({ collection, about, field, onChanged, stats }) {
  const [alias, setAlias] = useState(null);
  const [gain, setGain] = useState("0");
  const [epochs, setEpochs] = useState("");
  const [uncertain, setUncertain] = useState(false);
  const runs = useLoaded(() => jobsOf("retrain", collection), [collection]);
  const aliases = useLoaded((signal) => get("v1/aliases", { signal }), []);
  const reindexed = useLoaded(() => jobsOf("reindex", ""), []);
  const indexed = new Set((reindexed.data ?? []).filter((job) => job.state === "done").map((job) => job.collection));
  const reload = () => [runs, aliases, reindexed].forEach((each) => each.reload());
  const known = aliases.data?.aliases.find((alias) => alias.collection === collection)?.alias ?? "";
  const [awaited, setAwaited] = useState(null);
  const { busy, job, error, run } = useJob((done) => {
    setAwaited(done.id);
    runs.reload();
  });
  useEffect(() => {
    const running = runs.data?.find((job) => !job.finished);
    if (running && !busy) run(async () => running);
  }, [runs.data]);
  const start = (event) => {
    event.preventDefault();
    run(() => post(`${pathOf(collection)}/retrain`, {
      alias: (alias ?? known).trim() || null, label_field: field || null, min_gain: Number(gain) || 0, accept_uncertain: uncertain, epochs: epochs ? Number(epochs) : null,
    }));
  };
  const finished = (runs.data ?? []).filter((job) => job.state === "done");
  if (!about.n_bits) return html`<${FirstTraining} key=${collection} collection=${collection} field=${field} />`;
  if (!about.encoder) return html`<${Note}>The documents of this collection come with codes. There is no encoder to train.<//>`;
  const tooFew = stats && !field && (stats.labelled < FEWEST_LABELS || stats.labels.length < 2);
  return html`
    <${Panel} title="Retrain on these labels" what="A separate process trains an encoder on the labels, of which it holds out some. If the new encoder scores better on these than the one in use, it waits for your confirmation. Searches continue throughout.">
      <form class="inside stack retrain" onSubmit=${start}>
        <p class="what">${stats ? `Labelled: ${count(stats.labelled)} of ${plural(stats.documents, "document")}${field ? `, by hand or in the field ${field}` : ", by hand"}.` : ""}</p>
        ${tooFew && html`<${Note}>Retraining needs at least ${FEWEST_LABELS} labelled documents with two different labels. Label some under Judging, or name a label field.<//>`}
        <div class="row">
          <${Field} label="Alias to move" hint="optional"><input size="14" disabled=${aliases.loading} value=${alias ?? known} onInput=${(event) => setAlias(event.currentTarget.value)} /><//>
          <${Field} label="Minimum gain" hint="in mAP@100"><input type="number" step="any" min="-1" max="1" value=${gain} onInput=${(event) => setGain(event.currentTarget.value)} /><//>
          <${Field} label="Epochs" hint="optional"><input type="number" min="1" max="1000" value=${epochs} onInput=${(event) => setEpochs(event.currentTarget.value)} /><//>
          <label class="check"><input type="checkbox" checked=${uncertain} onChange=${(event) => setUncertain(event.currentTarget.checked)} /> Pass even if it cannot tell</label>
          <button class="button primary" type="submit" disabled=${busy || aliases.loading || tooFew}>Retrain</button>
          ${job && html`<${Progress} job=${job} />`}
        </div>
        <${Failure} error=${error} />
      </form>
    <//>
    ${runs.loading && !runs.data && html`<${Waiting} />`}
    ${aliases.data && reindexed.data && finished.map((job) => html`<${Finished} key=${job.id} job=${job} state=${stateOf(job, indexed, aliases.data.aliases)} isAwaited=${job.id === awaited} onDone=${onChanged} reload=${reload} />`)}`;
}
