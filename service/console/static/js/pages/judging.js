// Judging: one document or one answer at a time, with statistics beside it.
import { html, useState } from "../lib.js";
import { get, pathOf, post } from "../api.js";
import { Lines } from "../charts.js";
import { count, displayValue, figure, percent, plural, short } from "../format.js";
import { AnswerJudge } from "../judge_answers.js";
import { DocumentJudge, isLabelName } from "../judge_documents.js";
import { Button, CollectionPicker, Failure, Field, NoCollection, NoDocuments, Note, Panel, Segments, Table, useLoaded } from "../parts.js";
import { Retraining } from "../retraining.js";

const STORED = "hummingbit.judge";

/** How to read Cohen's kappa, by Landis and Koch (1977). */
function strength(kappa) {
  if (kappa == null) return "not defined";
  const steps = [[0.8, "almost perfect"], [0.6, "substantial"], [0.4, "moderate"], [0.2, "fair"], [0, "slight"]];
  return steps.find(([least]) => kappa > least)?.[1] ?? "no better than chance";
}

/** The payload field that has a label by its name, and the values that some documents have in it. */
async function knownLabels(collection, signal) {
  const { documents } = await post(`${pathOf(collection)}/documents:scroll`, { limit: 50 }, { signal });
  const payloads = documents.map((document) => document.payload ?? {});
  const names = [...new Set(payloads.flatMap(Object.keys))].filter(isLabelName);
  const field = names.find((name) => name === "label") ?? names[0];
  const values = payloads.flatMap((payload) => [payload[field] ?? []].flat()).map(displayValue);
  return field && { field, values: [...new Set(values)] };
}

/** An offer to count and to choose from the labels that the documents brought. */
function KnownLabels({ collection, onUse }) {
  const { data } = useLoaded((signal) => knownLabels(collection, signal), [collection]);
  if (!data?.values.length) return null;
  const some = data.values.slice(0, 4).map((value) => short(value, 24)).join(", ");
  return html`<${Note}>Documents have labels in <b>${data.field}</b>, such as ${some}. <${Button} kind="small" onClick=${() => onUse(data.field)}>Use these labels<//><//>`;
}

function Stats({ stats, collection, field, onField }) {
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
    </dl>${!field && stats.documents > 0 && html`<${KnownLabels} collection=${collection} onUse=${onField} />`}</div><//>
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

function Workplace({ collection, about, mode, who, can, field, link, onField }) {
  const query = field ? `?${new URLSearchParams({ label_field: field })}` : "";
  const { data, error, reload } = useLoaded((signal) => get(`${pathOf(collection)}/labels/stats${query}`, { signal }), [collection, field]);
  const Judge = { documents: DocumentJudge, answers: AnswerJudge, retrain: Retraining }[mode];
  return html`<div class="judge">
    <div class="stack">${data?.documents === 0 ? html`<${NoDocuments} />` : html`<${Judge} collection=${collection} who=${who} field=${field} can=${can} onChanged=${reload} link=${link} stats=${data} about=${about} />`}</div>
    <div class="stack"><${Failure} error=${error} />${data && html`<${Stats} stats=${data} collection=${collection} field=${field} onField=${onField} />`}</div>
  </div>`;
}

export default function Judging({ access, collections, collection, params, setParams, can, link }) {
  const [who, setWho] = useState(sessionStorage.getItem(STORED) ?? "");
  const modes = [["documents", "Documents"], ["answers", "Answers"], ...(access.role === "admin" && !access.read_only ? [["retrain", "Retrain"]] : [])];
  const mode = modes.some(([name]) => name === params.mode) ? params.mode : "documents";
  const named = (event) => {
    setWho(event.currentTarget.value);
    sessionStorage.setItem(STORED, event.currentTarget.value);
  };
  return html`
    <div class="head"><h1>Judging</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name })} />
        <${Segments} label="What to judge" value=${mode} options=${modes} onChange=${(name) => setParams({ mode: name })} />
        <span class="spacer"></span>
        <${Field} label="Your name" class="inline"><input size="12" maxlength="64" placeholder="the key's name" value=${who} onChange=${named} /><//>
        <${Field} label="Label field" class="inline"><input size="10" placeholder="payload field" value=${params.field ?? ""} onChange=${(event) => setParams({ field: event.currentTarget.value })} /><//>`}
    </div>
    ${collection
      ? html`<${Workplace} about=${collections.find((each) => each.name === collection)} key=${`${collection} ${mode} ${who} ${params.field}`} collection=${collection} mode=${mode} who=${who.trim()} field=${params.field ?? ""} can=${can} link=${link} onField=${(field) => setParams({ field })} />`
      : html`<${NoCollection} />`}`;
}
