// The components of the pages. They show values as text, never as markup.
import { html, useEffect, useRef, useState } from "./lib.js";
import { count } from "./format.js";

export const classes = (...names) => names.filter(Boolean).join(" ");

let numbers = 0;
export function useId(prefix) {
  const id = useRef("");
  if (!id.current) id.current = `${prefix}-${(numbers += 1)}`;
  return id.current;
}

/** Calls `load`, again whenever `inputs` change; the result of an older call is dropped. */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true, error: null }));
    load(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, error: null, loading: false }),
      (error) => stop.signal.aborted || setState({ data: null, error, loading: false }),
    );
    return () => stop.abort();
  }, [...inputs, again]);
  return { ...state, reload: () => setAgain((value) => value + 1) };
}

export function Failure({ error }) {
  if (!error) return null;
  return html`<div class="note bad" role="alert">
    <p>${error.message}</p>
    ${error.errors?.length > 1 &&
    html`<ul>${error.errors.map((each) => html`<li><code>${each.pointer}</code> ${each.message}</li>`)}</ul>`}
  </div>`;
}

export const Note = ({ kind = "", children }) => html`<div class=${classes("note", kind)}>${children}</div>`;

export const Waiting = ({ what = "Loading" }) =>
  html`<p class="waiting" role="status"><span class="spinner" aria-hidden="true"></span>${what} …</p>`;

export const Empty = ({ title, children }) =>
  html`<div class="empty"><h2>${title}</h2><p>${children}</p></div>`;

export const NoCollection = () =>
  html`<${Empty} title="No collection yet">The <a href="#/overview">overview</a> makes one from a file, as <code>hummingbit quickstart</code> does.<//>`;

export const NoDocuments = () =>
  html`<${Empty} title="No documents yet"><code>hummingbit index add</code> adds documents to this collection.<//>`;

export const NoCodes = () =>
  html`<${Empty} title="No codes">This collection has no encoder and is searched by words alone. <code>hummingbit index reindex</code> gives it one.<//>`;

export const hasCodes = (collections, name) => collections.find((each) => each.name === name)?.n_bits !== 0;

export function Field({ label, hint, children, class: name }) {
  return html`<label class=${classes("field", name)}>
    <span class="label">${label}${hint && html`<span class="hint"> ${hint}</span>`}</span>
    ${children}
  </label>`;
}

export function Select({ value, options, onChange, label, ...more }) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return html`<select
    value=${value}
    aria-label=${label}
    onChange=${(event) => onChange(event.currentTarget.value)}
    ...${more}
  >
    ${pairs.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
  </select>`;
}

export function Segments({ value, options, onChange, label }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([key, text]) => html`<button
        type="button"
        aria-pressed=${String(key === value)}
        onClick=${() => onChange(key)}
      >${text}</button>`,
    )}
  </div>`;
}

export function Button({ kind = "", children, busy, ...more }) {
  return html`<button type="button" class=${classes("button", kind)} aria-busy=${busy ? "true" : null} ...${more}>
    ${busy && html`<span class="spinner" aria-hidden="true"></span>`}${children}
  </button>`;
}

/** A panel with a heading; `what` is the sentence below it. */
export function Panel({ title, what, actions, children, class: name }) {
  const id = useId("panel");
  return html`<section class=${classes("panel", name)} aria-labelledby=${id}>
    <header>
      <div><h2 id=${id}>${title}</h2>${what && html`<p class="what">${what}</p>`}</div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
  </section>`;
}

/** A table that scrolls within itself, or `stacks` its cells where it is narrow. A column is {name, title, number, show(row)}. */
export function Table({ label, columns, rows, keyOf, empty = "Nothing yet.", onRow, marked, stacks }) {
  if (!rows.length) return html`<p class="nothing">${empty}</p>`;
  return html`<div class=${classes("scroll", stacks && "stacks")} tabindex="0" role="group" aria-label=${label}>
    <table>
      <thead><tr>${columns.map((column) => (column.title ? html`<th scope="col" class=${column.number && "number"}>${column.title}</th>` : html`<td></td>`))}</tr></thead>
      <tbody>
        ${rows.map(
          (row, place) => html`<tr
            key=${keyOf ? keyOf(row) : place}
            class=${classes(onRow && "open", marked?.(row) && "marked")}
            onClick=${onRow && (() => onRow(row))}
          >
            ${columns.map((column) => html`<td class=${classes(column.number && "number", column.class)} data-title=${column.title}>${column.show(row, place)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export const Tag = ({ kind = "", children, title }) => html`<span class=${classes("tag", kind)} title=${title}>${children}</span>`;

/** Seconds as a person would say them. */
const rounded = (seconds) => (seconds < 10 ? Math.max(1, Math.round(seconds)) : Math.round(seconds / 5) * 5);

/** A bar, and about how long the step will take once enough of it is done. */
export function Progress({ job }) {
  const { done, total, percent, step } = job.progress;
  const began = useRef({ step: null, time: 0, percent: 0 });
  if (began.current.step !== step) began.current = { step, time: performance.now(), percent: percent ?? 0 };
  const gained = (percent ?? 0) - began.current.percent;
  const left = gained >= 5 ? ((performance.now() - began.current.time) * (100 - percent)) / gained / 1000 : null;
  const text = total ? `${count(done)} of ${count(total)}` : step || "";
  return html`<div class="progress">
    <progress max="100" value=${percent ?? undefined} aria-label=${`${job.kind} ${job.collection}`}></progress>
    <span>${step && total ? `${step}, ` : ""}${text}${left > 1 ? `, about ${rounded(left)} s left` : ""}</span>
  </div>`;
}

/** The browser's own dialog, which keeps the focus inside, closes with Escape and returns the focus. */
export function Dialog({ title, onClose, children, class: name }) {
  const element = useRef(null);
  const id = useId("dialog");
  useEffect(() => {
    const shown = element.current;
    shown.showModal();
    return () => shown.close(); // which returns the focus to where it was
  }, []);
  return html`<dialog ref=${element} class=${name} aria-labelledby=${id} onClose=${onClose} onCancel=${onClose}>
    <header><h2 id=${id}>${title}</h2><button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button></header>
    ${children}
  </dialog>`;
}

export function Copy({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  if (!navigator.clipboard) return null; // a page over plain HTTP from another machine has none
  return html`<button type="button" class="button small" onClick=${copy}>
    <span aria-live="polite">${done ? "Copied" : "Copy"}</span>
  </button>`;
}

/** The collection that a page is about. */
export function CollectionPicker({ collections, value, onChange, label = "Collection" }) {
  return html`<label class="picker"><span class="visually-hidden">${label}</span>
    <${Select} value=${value} onChange=${onChange}
      options=${collections.map((each) => [each.name, `${each.name} · ${count(each.documents)}`])} />
  </label>`;
}
