// Labels of documents, one at a time, the most useful first.
import { html, useEffect, useRef, useState } from "./lib.js";
import { get, pathOf, put } from "./api.js";
import { count, percent, plural } from "./format.js";
import { Payload } from "./hits.js";
import { useKeys } from "./keys.js";
import { Button, Failure, Field, Note, Panel, Select, Waiting } from "./parts.js";

const AHEAD = 12;
const LOW = 4;
const MOST_KNOWN = 40;
const METHODS = [
  ["herding", "close to many uncertain ones"], ["margin", "smallest margin"], ["random", "random"], ["second-opinion", "second opinion"],
];

/** A text without empty lines at its ends, and with no two in a row inside. */
export const tidy = (text) => text.trim().replace(/\n\s*\n\s*\n/g, "\n\n");

/** Whether to read the statistics again after one more record: after the first and every fifth. */
export const statsAreDue = (written) => written === 0 || (written + 1) % 5 === 0;

const LABEL_NAMES = /^(labels?|class(es)?|categor(y|ies|ias?|ies?)|categorie|kategorien?|topics?|themas?|temas?|tags?|klassen?|etiquetas?|rubrik)$/;
const plain = (text) => String(text).normalize("NFKD").replace(/\p{M}/gu, "").trim().toLowerCase();

/** Whether a field has a label by its name. */
export const isLabelName = (name) => LABEL_NAMES.test(plain(name));

/** A payload without its labels, which must not influence a judge: fields of such a name, or with a class as value. */
export function unlabelled(payload, classes = [], field = "") {
  const names = new Set(classes.map(plain));
  const isLabel = ([name, value]) => name === field || isLabelName(name) || [value].flat().some((one) => names.has(plain(one)));
  return Object.fromEntries(Object.entries(payload).filter((entry) => !isLabel(entry)));
}

/** The classes to choose from: the document's most likely ones first, then all others by name. */
function choicesOf(document, classes, added) {
  const guessed = document.guesses.map((guess) => guess.label);
  return [...new Set([...guessed, ...added, ...classes])];
}

function Choices({ document, choices, onChoose, disabled }) {
  // With one class, its probability is 1 whatever the document is.
  const probability = new Map(document.guesses.length > 1 ? document.guesses.map((guess) => [guess.label, guess.probability]) : []);
  return html`<div class="choices">${choices.map((name, place) => html`<button type="button" class="button" key=${name} disabled=${disabled} onClick=${() => onChoose(name)}>
    ${place < 9 && html`<kbd>${place + 1}</kbd>`}<span>${name}</span>${probability.has(name) && html`<span class="what">${percent(probability.get(name), 0)}</span>`}</button>`)}</div>`;
}

export function DocumentJudge({ collection, who, field, known = [], isDone, can, onChanged, onByHand }) {
  const [method, setMethod] = useState("herding");
  const [queue, setQueue] = useState(null);
  const [classes, setClasses] = useState([]);
  // The labels that documents brought can be chosen, too.
  const [added, setAdded] = useState(known.slice(0, MOST_KNOWN));
  const [newLabel, setNewLabel] = useState("");
  const [past, setPast] = useState([]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const seen = useRef(new Set());
  const isFetching = useRef(false);

  const fetchMore = async (extend) => {
    if (isFetching.current) return;
    isFetching.current = true;
    const query = new URLSearchParams({ n: String(AHEAD), method });
    if (who) query.set("who", who);
    if (field) query.set("label_field", field);
    [...seen.current].slice(-200).forEach((id) => query.append("skip", id));
    try {
      const suggested = await get(`${pathOf(collection)}/labels/suggest?${query}`);
      setClasses(suggested.classes);
      const fresh = suggested.documents.filter((document) => !seen.current.has(document.id));
      fresh.forEach((document) => seen.current.add(document.id));
      setQueue((before) => [...(extend ? before ?? [] : []), ...fresh]);
    } catch (problem) {
      setError(problem);
      setQueue((before) => before ?? []);
    }
    isFetching.current = false;
  };
  useEffect(() => { seen.current = new Set(); setQueue(null); fetchMore(false); }, [method]);
  const current = queue?.[0];
  const writes = can("write");

  const saveLabels = async (labels) => {
    if (!current || busy || !writes) return;
    setBusy(true);
    setError(null);
    try {
      await put(`${pathOf(collection)}/labels`, { labels: [{ id: current.id, labels, ...(who && { who }) }] });
      setPast((before) => [{ document: current, labels }, ...before]);
      next();
      if (statsAreDue(past.length)) onChanged();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const next = () => {
    setQueue((before) => before.slice(1));
    if (queue.length <= LOW) fetchMore(true);
  };
  const undo = async () => {
    const [last, ...rest] = past;
    if (!last || busy) return;
    setBusy(true);
    try {
      await put(`${pathOf(collection)}/labels`, { labels: [{ id: last.document.id, labels: null, ...(who && { who }) }] });
      setPast(rest);
      setQueue((before) => [last.document, ...before]);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const choices = current ? choicesOf(current, classes, added) : [];
  const digits = Object.fromEntries(choices.slice(0, 9).map((name, place) => [String(place + 1), () => saveLabels([name])]));
  useKeys({ ...digits, 0: () => saveLabels([]), s: () => current && next(), u: undo });
  const add = (event) => {
    event.preventDefault();
    const name = newLabel.trim();
    if (!name) return;
    setAdded((before) => [...new Set([...before, name])]);
    setNewLabel("");
    // Digits are keys again.
    event.currentTarget.querySelector("input").blur();
    saveLabels([name]);
  };
  return html`
    <${Panel} title=${past.length ? `${plural(past.length, "document")} labelled in this session` : "Which label fits this document?"}
      actions=${html`<${Field} label="Order" class="inline"><${Select} value=${method} options=${METHODS} onChange=${setMethod} /><//>`}>
      <div class="inside stack">
        <${Failure} error=${error} />
        ${!writes && html`<${Note}>This key may read but not label.<//>`}
        ${!queue && html`<${Waiting} what="Choosing documents to label" />`}
        ${queue && !current && !error && html`<${Note}>${field ? html`${isDone ? html`Every document has a label in <b>${field}</b> or from a person.` : "This order suggests no more documents."} <${Button} kind="small" onClick=${onByHand}>Label by hand all the same<//>` : "This order suggests no more documents."}<//>`}
        ${current && html`
          <div class="row"><b class="break">${current.id}</b> <${Payload} payload=${unlabelled(current.payload, choices, field)} />
            <span class="what">${current.bucket > 1 ? `${count(current.bucket)} documents have this code` : "no other document has this code"}</span></div>
          <div class="subject" tabindex="0" aria-label="Text of the document" role="group" data-document=${current.id}>${current.text ? tidy(current.text) : "This document has no text."}</div>
          ${writes && html`<${Choices} document=${current} choices=${choices} onChoose=${(name) => saveLabels([name])} disabled=${busy} />
            <form class="row" onSubmit=${add}><input aria-label="Another label" placeholder="Another label" maxlength="200" value=${newLabel} onInput=${(event) => setNewLabel(event.currentTarget.value)} onKeyDown=${(event) => event.key === "Escape" && event.currentTarget.blur()} />
              <button class="button" type="submit" disabled=${!newLabel.trim() || busy}>Use this label</button>
              <${Button} onClick=${() => saveLabels([])} disabled=${busy}><kbd>0</kbd> None fits<//>
              <${Button} onClick=${next}><kbd>s</kbd> Skip<//>
              <${Button} onClick=${undo} disabled=${!past.length || busy}><kbd>u</kbd> Undo<//></form>`}`}
        <p class="visually-hidden" role="status">${past[0] ? `${past[0].document.id} is labelled ${past[0].labels.join(", ") || "none"}` : ""}</p>
      </div>
    <//>
    ${past.length > 0 && html`<${Panel} title="Latest labels"><ul class="documents" tabindex="0" aria-label="Latest labels">${past.slice(0, 20).map((record) => html`<li key=${record.document.id}><span class="id">${record.document.id}</span> ${record.labels.join(", ") || "none fits"}</li>`)}</ul><//>`}`;
}
