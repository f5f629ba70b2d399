// A form that builds a filter on payloads, one row for each condition.
import { html } from "./lib.js";
import { Button, Select, useId } from "./parts.js";

const CONDITIONS = [
  ["eq", "is"], ["ne", "is not"], ["in", "is one of"], ["gt", ">"], ["gte", "≥"], ["lt", "<"], ["lte", "≤"],
  ["prefix", "begins with"], ["contains", "contains"],
  ["exists", "exists"], ["missing", "does not exist"], ["is_null", "is null"],
];
const WITHOUT_VALUE = ["exists", "missing", "is_null"];
export const NEW_ROW = { field: "", condition: "eq", value: "" };

/** The value of a typed text: a number, true, false or a string; quotes make anything a string. */
function scalar(text) {
  const trimmed = text.trim();
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  if (/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed)) return Number(trimmed);
  const quoted = /^"(.*)"$/s.exec(trimmed);
  return quoted ? quoted[1] : trimmed;
}

function part({ field, condition, value }) {
  if (condition === "exists") return { field, exists: true };
  if (condition === "missing") return { field, exists: false };
  if (condition === "is_null") return { field, is_null: true };
  if (condition === "prefix" || condition === "contains") return { field, [condition]: value.trim() };
  if (condition === "in") return { field, in: value.split(",").map(scalar) };
  if (condition === "ne") return { not: { field, eq: scalar(value) } };
  return { field, [condition]: scalar(value) };
}

/** The filter of the rows that name a field; undefined without one. */
export function filterOf(rows, all) {
  const parts = rows.filter((row) => row.field.trim()).map((row) => part({ ...row, field: row.field.trim() }));
  if (!parts.length) return undefined;
  return parts.length === 1 ? parts[0] : { [all ? "and" : "or"]: parts };
}

/** The fields of payloads by name, nested ones with dots. */
export function fieldsOf(payloads) {
  const names = new Set();
  const visit = (value, path, depth) => {
    if (value && typeof value === "object" && !Array.isArray(value) && depth < 4)
      for (const [name, inner] of Object.entries(value)) visit(inner, path ? `${path}.${name}` : name, depth + 1);
    else if (path) names.add(path);
  };
  payloads.forEach((payload) => visit(payload, "", 0));
  return [...names].sort().slice(0, 200);
}

export function FilterBuilder({ rows, all, fields, onRows, onAll }) {
  const list = useId("fields");
  const change = (place, changed) => onRows(rows.map((row, other) => (other === place ? { ...row, ...changed } : row)));
  return html`<fieldset class="filters">
    <legend>Filter</legend>
    <datalist id=${list}>${fields.map((name) => html`<option value=${name}></option>`)}</datalist>
    ${rows.map(
      (row, place) => html`<div class="row" key=${place}>
        <input aria-label="Field" list=${list} placeholder="field" size="14" value=${row.field} onInput=${(event) => change(place, { field: event.currentTarget.value })} />
        <${Select} label="Condition" value=${row.condition} options=${CONDITIONS} onChange=${(condition) => change(place, { condition })} />
        ${!WITHOUT_VALUE.includes(row.condition) &&
        html`<input aria-label="Value" placeholder=${row.condition === "in" ? "a, b, c" : "value"} size="16" value=${row.value} onInput=${(event) => change(place, { value: event.currentTarget.value })} />`}
        <button type="button" class="icon" aria-label="Remove the condition" onClick=${() => onRows(rows.filter((_, other) => other !== place))}>✕</button>
      </div>`,
    )}
    <div class="row">
      <${Button} kind="small" onClick=${() => onRows([...rows, { ...NEW_ROW }])}>Add a condition<//>
      ${rows.length > 1 && html`<label class="check"><input type="checkbox" checked=${all} onChange=${(event) => onAll(event.currentTarget.checked)} /> match all conditions</label>`}
    </div>
  </fieldset>`;
}
