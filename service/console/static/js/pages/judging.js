// Judging: one document or one answer at a time, with statistics beside it.
import { html, useState } from "../lib.js";
import { get, of } from "../api.js";
import { Lines } from "../charts.js";
import { count, figure, percent, plural } from "../format.js";
import { AnswerJudge } from "../judge_answers.js";
import { DocumentJudge } from "../judge_documents.js";
import { CollectionPicker, Empty, Failure, Field, Panel, Segments, Table, useLoaded } from "../parts.js";
import { Retraining } from "../retraining.js";

const STORED = "hummingbit.judge";

/** How to read Cohen's kappa, by Landis and Koch (1977). */
function strength(kappa) {
  if (kappa == null) return "cannot be told";
  const steps = [[0.8, "almost perfect"], [0.6, "substantial"], [0.4, "moderate"], [0.2, "fair"], [0, "slight"]];
  return steps.find(([least]) => kappa > least)?.[1] ?? "no better than chance";
}

function Stats({ stats }) {
  const people = [
    { title: "Who", class: "break", show: (one) => one.who },
    { title: "Labels", number: true, show: (one) => count(one.labels) },
    { title: "Judgements", number: true, show: (one) => count(one.judgements) },
  ];
  const pairs = [
    { title: "Two judges", class: "break", show: (one) => one.who.join(" and ") },
    { title: "Both", number: true, show: (one) => count(one.items) },
    { title: "Agree", number: true, show: (one) => percent(one.observed, 0) },
    { title: "κ", number: true, show: (one) => html`${figure(one.kappa, 2)} <span class="sub">${strength(one.kappa)}</span>` },
  ];
  const gain = stats.expected_gain;
  return html`
    <${Panel} title="So far"><div class="inside"><dl class="facts">
      <div><dt>Labelled</dt><dd>${count(stats.labelled)} <small>of ${count(stats.documents)}</small></dd></div>
      <div><dt>Judgements</dt><dd>${count(stats.judgements)} <small>of ${plural(stats.queries, "query", "queries")}</small></dd></div>
    </dl></div><//>
    <${Panel} title="A next label" what="Accuracy of a quick classifier of the codes, in cross-validation, over the number of labels.">
      <div class="inside stack">${gain
        ? html`<p>Another label should add <b>${(100 * gain.per_label).toFixed(3)}</b> percentage points to an accuracy of ${percent(gain.accuracy)}.
            ${gain.labels_to_one_percent != null ? ` A whole point takes about ${plural(gain.labels_to_one_percent, "label")}.` : " More labels of the same kind are not expected to help."}</p>
            <${Lines} label="Accuracy over labels" xLabel="labels" series=${[{ name: "accuracy", points: gain.curve }]} height=${170} />`
        : html`<p class="what">With a few labels of two classes or more it can be told what another one is worth.</p>`}</div><//>
    ${stats.agreement.length > 0 && html`<${Panel} title="Agreement"><${Table} label="Agreement" columns=${pairs} rows=${stats.agreement} /><//>`}
    ${stats.people.length > 0 && html`<${Panel} title="People"><${Table} label="People" columns=${people} rows=${stats.people} /><//>`}
    ${stats.labels.length > 0 && html`<${Panel} title="Labels"><ul class="swatches inside">${stats.labels.slice(0, 30).map((one) => html`<li><span></span><span class="text">${one.label}</span><span class="what">${count(one.documents)}</span></li>`)}</ul><//>`}`;
}

function Workplace({ collection, mode, who, can, field, link }) {
  const query = field ? `?${new URLSearchParams({ label_field: field })}` : "";
  const { data, error, reload } = useLoaded((signal) => get(`${of(collection)}/labels/stats${query}`, { signal }), [collection, field]);
  const Judge = { documents: DocumentJudge, answers: AnswerJudge, retrain: Retraining }[mode];
  return html`<div class="judge">
    <div class="stack"><${Judge} collection=${collection} who=${who} field=${field} can=${can} onChanged=${reload} link=${link} stats=${data} /></div>
    <div class="stack"><${Failure} error=${error} />${data && html`<${Stats} stats=${data} />`}</div>
  </div>`;
}

export function Judging({ access, collections, collection, params, setParams, can, link }) {
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
        <${Field} label="Judge" class="inline"><input size="12" maxlength="64" placeholder="the key's name" value=${who} onInput=${named} /><//>
        <${Field} label="Known labels in" class="inline"><input size="10" placeholder="payload field" value=${params.field ?? ""} onChange=${(event) => setParams({ field: event.currentTarget.value })} /><//>`}
    </div>
    ${collection
      ? html`<${Workplace} key=${`${collection} ${mode} ${who} ${params.field}`} collection=${collection} mode=${mode} who=${who.trim()} field=${params.field ?? ""} can=${can} link=${link} />`
      : html`<${Empty} title="There is nothing to judge">No collection has been made yet.<//>`}`;
}
