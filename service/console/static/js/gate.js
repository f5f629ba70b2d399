// A gate of an evaluation: its conditions in TOML, and what became of each.
import { html, useState } from "./lib.js";
import { Field, Note } from "./parts.js";

const KINDS = { passed: "good", warned: "warn" };

export const GateResults = ({ results }) =>
  html`${results.map((result) => html`<${Note} key=${result.sentence} kind=${KINDS[result.status] ?? "bad"}><b>${result.status}</b> ${result.sentence}<//>`)}`;

export function GateForm({ gate, onGate, example }) {
  const [typed, setTyped] = useState(gate);
  const apply = (event) => {
    event.preventDefault();
    onGate(typed);
  };
  return html`<details open=${gate !== ""}><summary>Check against a gate</summary>
    <form class="stack" onSubmit=${apply}>
      <${Field} label="Gate" hint="TOML, as for hummingbit evaluate --gate">
        <textarea class="mono" rows="4" spellcheck=${false} value=${typed} placeholder=${example} onInput=${(event) => setTyped(event.currentTarget.value)}></textarea><//>
      <div><button class="button small" type="submit">Apply the gate</button></div>
    </form></details>`;
}
