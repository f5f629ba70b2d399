// Judging: one document or one answer at a time, with statistics beside it.
import { html, useState } from "../lib.js";
import { get, pathOf } from "../api.js";
import { Lines } from "../charts.js";
import { count, figure, percent, plural } from "../format.js";
import { AnswerJudge } from "../judge_answers.js";
import { DocumentJudge } from "../judge_documents.js";
import { useLabelField } from "../labelfield.js";
import { CollectionPicker, Failure, Field, NoCollection, NoDocuments, Panel, Segments, Table, Waiting, useLoaded } from "../parts.js";

const STORED = "hummingbit.judge";

/** How to read Cohen's kappa, by Landis and Koch (1977). */
function strength(kappa) {
  if (kappa == null) return "not defined";
  const steps = [[0.8, "almost perfect"], [0.6, "substantial"], [0.4, "moderate"], [0.2, "fair"], [0, "slight"]];
  return steps.find(([least]) => kappa > least)?.[1] ?? "no better than chance";
}

function Stats({ stats, field }) {
  const people = [
    { title: "Who", class: "break", show: (person) => person.who },
    { title: "Labels", number: true, show: (person) => count(person.labels) },
    { title: "Judgements", number: true, show: (person) => count(person.judgements) },
  ];
  const pairs = [
    { title: "Judges", class: "break", show: (pair) => pair.who.join(" and ") },
    { title: "Both", number: true, show: (pair) => count(pair.items) },
    { title: "Agreement", number: true, show: (pair) => percent(pair.observed, 0) },
    { title: "κ", number: true, show: (pair) => html`${figure(pair.kappa, 2)} <span class="sub">${strength(pair.kappa)}</span>` },
  ];
  const gain = stats.expected_gain;
  return html`
    <${Panel} title="Progress"><div class="inside stack"><dl class="facts">
      <div><dt>Labelled</dt><dd>${count(stats.labelled)} <small>of ${count(stats.documents)}</small></dd></div>
      <div><dt>Judgements</dt><dd>${count(stats.judgements)} <small>of ${plural(stats.queries, "query", "queries")}</small></dd></div>
    </dl>${field && html`<p class="what">Labels in the field <b>${field}</b> count, for documents that nobody has labelled.</p>`}</div><//>
    <${Panel} title="Expected gain" what="Cross-validated accuracy of a quick classifier, by the number of labels it learns from.">
      <div class="inside stack">${gain
        ? html`<p>The accuracy is ${percent(gain.accuracy)}. One more label is expected to add <b>${(100 * gain.per_label).toFixed(3)}</b> percentage points.
            ${gain.labels_to_one_percent != null ? ` A full point takes about ${plural(gain.labels_to_one_percent, "label")}.` : " More labels of the same kind are not expected to help."}</p>
            ${gain.curve.length > 1 && html`<${Lines} label="Accuracy by number of labels" xLabel="labels" series=${[{ name: "accuracy", points: gain.curve }]} height=${170} />`}`
        : html`<p class="what">The estimate needs a few labels of at least two classes.</p>`}</div><//>
    ${stats.agreement.length > 0 && html`<${Panel} title="Agreement" what="Cohen’s κ over what both have judged."><${Table} label="Agreement" columns=${pairs} rows=${stats.agreement} /><//>`}
    ${stats.people.length > 0 && html`<${Panel} title="People"><${Table} label="People" columns=${people} rows=${stats.people} /><//>`}
    ${stats.labels.length > 0 && html`<${Panel} title="Labels"><ul class="swatches plain inside">${stats.labels.slice(0, 30).map((label) => html`<li><span class="text">${label.label}</span><span class="what">${count(label.documents)}</span></li>`)}</ul><//>`}`;
}

function Workplace({ collection, about, mode, who, can, field, known, link, onByHand }) {
  const query = field ? `?${new URLSearchParams({ label_field: field })}` : "";
  const { data, error, reload } = useLoaded((signal) => get(`${pathOf(collection)}/labels/stats${query}`, { signal }), [collection, field]);
  const Judge = mode === "answers" ? AnswerJudge : DocumentJudge;
  return html`<div class="judge">
    <div class="stack">${data?.documents === 0 ? html`<${NoDocuments} />` : html`<${Judge} collection=${collection} about=${about} who=${who} field=${field} known=${known} isDone=${data && data.labelled >= data.documents} can=${can} onChanged=${reload} onByHand=${onByHand} link=${link} />`}</div>
    <div class="stack"><${Failure} error=${error} />${data && html`<${Stats} stats=${data} field=${field} />`}
      ${can("admin") && html`<p class="what"><a href=${link("training", { collection })}>Train an encoder on these labels</a></p>`}</div>
  </div>`;
}

const MODES = [["documents", "Documents"], ["answers", "Answers"]];

export default function Judging({ collections, collection, params, setParams, can, link }) {
  const [who, setWho] = useState(sessionStorage.getItem(STORED) ?? "");
  const { field, shown, known, choose } = useLabelField(collection, params, setParams);
  const mode = MODES.some(([name]) => name === params.mode) ? params.mode : "documents";
  const named = (event) => {
    setWho(event.currentTarget.value);
    sessionStorage.setItem(STORED, event.currentTarget.value);
  };
  return html`
    <div class="head"><h1>Judging</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name, field: "" })} />
        <${Segments} label="What to judge" value=${mode} options=${MODES} onChange=${(name) => setParams({ mode: name })} />
        <span class="spacer"></span>
        <${Field} label="Your name" class="inline"><input size="12" maxlength="64" placeholder="the key's name" value=${who} onChange=${named} /><//>
        <${Field} label="Label field" class="inline"><input size="10" placeholder="by hand only" value=${shown} onChange=${(event) => choose(event.currentTarget.value)} /><//>`}
    </div>
    ${!collection ? html`<${NoCollection} />`
      : field === null ? html`<${Waiting} />`
      : html`<${Workplace} key=${`${collection} ${mode} ${who} ${field}`} collection=${collection} about=${collections.find((each) => each.name === collection)} mode=${mode} who=${who.trim()} field=${field} known=${known.values} can=${can} link=${link} onByHand=${() => choose("")} />`}`;
}
