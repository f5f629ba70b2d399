// Search: a query and its hits, and on request the hits of another ranking or collection beside them.
import { html, useEffect, useRef, useState } from "../lib.js";
import { pathOf, post } from "../api.js";
import { count, plural } from "../format.js";
import { FilterBuilder, fieldsOf, filterOf } from "../filter.js";
import { Facets, Groups, Hits, QueryDetails, moves } from "../hits.js";
import { CollectionPicker, Empty, Failure, Field, NoCollection, Note, Panel, Segments, Select, Waiting, hasCodes, useId, useLoaded } from "../parts.js";
import { Snippets, operationOf } from "../snippets.js";

const KINDS = [["text", "Text"], ["id", "Document"], ["examples", "Examples"], ["code", "Code"], ["vector", "Vector"]];
const KINDS_WITHOUT_ENCODER = KINDS.filter(([kind]) => kind === "id" || kind === "examples" || kind === "code");
const KINDS_WITHOUT_CODES = KINDS.filter(([kind]) => kind === "text");
const RANKINGS_WITHOUT_CODES = ["bm25"];
const RESCORERS = [["", "nothing"], ["bm25", "words (bm25)"], ["logits", "real values (logits)"]];
const PLACEHOLDERS = {
  text: "Words, a sentence, a page",
  id: "The id of a stored document",
  examples: "Ids of documents that the hits should be like, one a line",
  code: "Hexadecimal digits, two for each byte",
  vector: "Numbers, separated by commas",
};

const linesOf = (typed) => typed.split("\n").map((line) => line.trim()).filter(Boolean);

function queryOf(kind, typed) {
  if (kind !== "vector") return { [kind]: kind === "text" ? typed : typed.trim() };
  return { vector: typed.replace(/[[\]]/g, "").split(/[\s,]+/).filter(Boolean).map(Number) };
}

/** The body of a search; fields with default values are left out. */
function bodyOf(form, side) {
  const common = {
    limit: Number(form.limit) || 10,
    filter: filterOf(form.rows, form.all),
    diversity: Number(form.diversity) || undefined,
    with_payload: true,
    with_text: true,
    with_code: true,
  };
  if (form.kind === "examples") return { positive: linesOf(form.query), negative: linesOf(form.unlike), ...common };
  const ranking = side.ranking || undefined;
  const takesRadius = ranking === "hamming";
  return {
    ...queryOf(form.kind, form.query),
    ...common,
    radius: takesRadius && form.radius !== "" ? Number(form.radius) : undefined,
    ranking,
    score_threshold: Number(form.least) ? Number(form.least) / 100 : undefined,
    group_by: form.groupBy.trim() || undefined,
    group_size: form.groupBy.trim() ? 3 : undefined,
    facets: form.facet.trim() ? [{ field: form.facet.trim() }] : undefined,
    rescore: side.rescore ? { by: side.rescore } : undefined,
    highlight: form.kind === "text" ? true : undefined,
    explain: true,
    with_confidence: true,
  };
}

/** The query's parameters in the page's address; a vector would make it too long. */
const inAddress = ({ kind, query }) => ({ q: kind === "text" ? query : "", id: kind === "id" ? query : "", code: kind === "code" ? query : "" });

/** The query of an address, as fields of the form. */
const fromAddress = ({ q, id, code }) => ({ kind: id ? "id" : code ? "code" : "text", query: q ?? id ?? code ?? "" });

const clean = (body) => JSON.parse(JSON.stringify(body));

/** A side that searches another collection; one without codes has no rankings by them. */
const inCollection = (side, collection, collections) => ({ ...side, collection, ...(hasCodes(collections, collection) ? {} : { ranking: "", rescore: "" }) });

function Side({ side, rankings, collections, onChange, label, byExamples, other = false }) {
  const ranksByCodes = hasCodes(collections, side.collection) && !byExamples;
  return html`<div class="row" role="group" aria-label=${label}>
    ${other && html`<${Field} label="Collection"><${Select} value=${side.collection} onChange=${(name) => onChange(inCollection(side, name, collections))}
      options=${collections.map((each) => [each.name, `${each.name} · ${count(each.documents)}`])} /><//>`}
    ${!byExamples && html`<${Field} label="Ranking"><${Select} value=${side.ranking} options=${[["", "default of the collection"], ...(ranksByCodes ? rankings : RANKINGS_WITHOUT_CODES)]} onChange=${(ranking) => onChange({ ...side, ranking })} /><//>`}
    ${ranksByCodes && html`<${Field} label="Rescore by"><${Select} value=${side.rescore} options=${RESCORERS} onChange=${(rescore) => onChange({ ...side, rescore })} /><//>`}
  </div>`;
}

function useFields(collection) {
  const { data } = useLoaded(
    async () => (collection ? fieldsOf((await post(`${pathOf(collection)}/documents:scroll`, { limit: 50 })).documents.map((document) => document.payload)) : []),
    [collection],
  );
  return data ?? [];
}

/** An answer whose hits are those of its groups, if it has any. */
const flat = (answer) => (answer?.groups ? { ...answer, hits: answer.groups.flatMap((group) => group.hits) } : answer);

function Answer({ answer, other, title, isEmpty, onSimilar }) {
  const { hits } = flat(answer);
  const groups = answer.groups ? ` in ${plural(answer.groups.length, "group")}` : "";
  const List = answer.groups ? Groups : Hits;
  return html`<${Panel} title=${title} what=${`${plural(hits.length, "hit")}${groups} in ${answer.took_ms.toFixed(1)} ms`}>
    ${hits.length
      ? html`<${List} answer=${answer} other=${flat(other)} onSimilar=${onSimilar} />`
      : html`<p class="nothing">No hits. ${answer.recognized_terms === 0 ? "The encoder knows none of the words." : isEmpty ? "The collection has no documents yet." : "Remove conditions, or allow a larger radius or a lower confidence."}</p>`}
  <//>`;
}

/** What the folded options say: those that are not as they begin. */
function summaryOf({ kind, form, left, right }) {
  const chosen = [
    kind !== "text" && `by ${KINDS.find(([name]) => name === kind)[1].toLowerCase()}`,
    left.ranking, left.rescore && `rescored by ${left.rescore}`, right && "compared with another",
    form.rows.length && plural(form.rows.length, "condition"), form.groupBy.trim() && `grouped by ${form.groupBy.trim()}`,
    form.facet.trim() && `counted by ${form.facet.trim()}`, form.least && `at least ${form.least} % sure`, Number(form.diversity) && "diverse",
  ].filter(Boolean);
  return `Options${chosen.length ? `: ${chosen.join(", ")}` : ""}`;
}

export default function SearchPage({ access, collections, collection, params, setParams }) {
  const [form, setForm] = useState({
    ...fromAddress(params), limit: params.limit ?? "10", radius: "", rows: [], all: true,
    unlike: "", diversity: "", least: "", groupBy: "", facet: "",
  });
  const [left, setLeft] = useState({ collection, ranking: params.ranking ?? "", rescore: "" });
  const [right, setRight] = useState(null);
  const [results, setResults] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(false);
  const change = (changed) => setForm((before) => ({ ...before, ...changed }));
  const fields = useFields(left.collection);

  const kindsOf = ({ collection: name }) => {
    const found = collections.find((each) => each.name === name);
    return !found || found.encoder ? KINDS : found.n_bits ? KINDS_WITHOUT_ENCODER : KINDS_WITHOUT_CODES;
  };
  const taken = [left, right].filter(Boolean).map(kindsOf);
  const shared = KINDS.filter((each) => taken.every((some) => some.includes(each)));
  const kinds = shared.length ? shared : taken[0];
  const kind = kinds.some(([name]) => name === form.kind) ? form.kind : kinds.at(-1)[0];

  const fieldList = useId("fields");
  const latest = useRef(0);
  const search = async (request, from = left) => {
    if (!request.query.trim()) return;
    latest.current += 1;
    const turn = latest.current;
    setBusy(true);
    setError(null);
    const sides = right ? [from, right] : [from];
    const bodies = sides.map((side) => clean(bodyOf(request, side)));
    try {
      const answers = await Promise.all(sides.map((side, place) => post(`${pathOf(side.collection)}/${operationOf(bodies[place])}`, bodies[place])));
      if (turn !== latest.current) return;
      setResults({ sides, bodies, answers });
    } catch (problem) {
      if (turn !== latest.current) return;
      setResults(null);
      setError(problem);
    }
    setBusy(false);
  };
  // The browser's buttons for back and forward change the address, too.
  const searched = useRef("");
  const addressOf = (name, request) => JSON.stringify([name, inAddress(request)]);
  useEffect(() => {
    const linked = fromAddress(params);
    const address = addressOf(collection, linked);
    if (!linked.query || searched.current === address) return;
    searched.current = address;
    const request = { ...form, ...linked };
    const from = { ...left, collection };
    setForm(request);
    setLeft(from);
    if (kindsOf(from).some(([name]) => name === linked.kind)) search(request, from);
  }, [collection, params.q, params.id, params.code]);
  if (!collections.length) return html`<div class="head"><h1>Search</h1></div><${NoCollection} />`;
  const begin = (request) => {
    searched.current = addressOf(left.collection, request);
    setParams({ collection: left.collection, ...inAddress(request) });
    search(request);
  };
  const submit = (event) => {
    event.preventDefault();
    begin({ ...form, kind });
  };
  /** Search again only where a field has a value, which a facet counted. */
  const narrow = (field, value) => {
    const condition = typeof value === "string" ? JSON.stringify(value) : String(value);
    const request = { ...form, kind, all: true, rows: [...form.rows, { field, condition: "eq", value: condition }] };
    setForm(request);
    search(request);
  };
  const similar = (id) => {
    const examples = kind === "examples";
    const request = examples ? { ...form, query: [...new Set([...linesOf(form.query), id])].join("\n") } : { ...form, kind: "id", query: id };
    setForm(request);
    begin(request);
    scrollTo({ top: 0 });
  };
  const byCodes = hasCodes(collections, left.collection);
  const compare = (on) => setRight(on ? { ...left, ranking: !byCodes ? "" : left.ranking === "hamming" ? "hybrid" : "hamming" } : null);
  const [first, second] = results?.answers ?? [];
  const name = (side) => `${side.collection}${side.ranking ? `, ${side.ranking}` : ""}${side.rescore ? ` rescored by ${side.rescore}` : ""}`;
  const isEmpty = (side) => collections.find((each) => each.name === side.collection)?.documents === 0;
  const byHamming = [left, right].some((side) => side?.ranking === "hamming");
  return html`
    <div class="head"><h1>Search</h1>
      <${CollectionPicker} collections=${collections} value=${left.collection} onChange=${(name) => setLeft(inCollection(left, name, collections))} />
    </div>
    <div class="stack">
      <form class="panel composer" onSubmit=${submit} role="search">
        <div class="ask">
          <textarea aria-label="Query" rows="1" placeholder=${PLACEHOLDERS[kind]} value=${form.query} spellcheck=${false}
            onInput=${(event) => change({ query: event.currentTarget.value })}
            onKeyDown=${(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event)}></textarea>
          <button class="button primary" type="submit" disabled=${busy}>Search</button>
        </div>
        ${kind === "examples" &&
        html`<${Field} label="Unlike"><textarea rows="2" placeholder="Ids of documents that they should not be like, one a line" value=${form.unlike} spellcheck=${false}
          onInput=${(event) => change({ unlike: event.currentTarget.value })}></textarea><//>`}
        <details class="options" open=${open || kind !== "text"} onToggle=${(event) => setOpen(event.currentTarget.open)}>
          <summary>${summaryOf({ kind, form, left, right })}</summary>
          <div class="stack">
            <${Segments} label="Search by" value=${kind} options=${kinds} onChange=${(chosen) => change({ kind: chosen })} />
            <div class="row">
              <${Side} side=${left} rankings=${access.rankings} collections=${collections} onChange=${setLeft} label="Search in" byExamples=${kind === "examples"} />
              <${Field} label="Limit"><input type="number" min="1" max="200" value=${form.limit} onInput=${(event) => change({ limit: event.currentTarget.value })} /><//>
              ${byHamming && kind !== "examples" && html`<${Field} label="Radius"><input type="number" min="0" placeholder="any" value=${form.radius} onInput=${(event) => change({ radius: event.currentTarget.value })} /><//>`}
              <label class="check"><input type="checkbox" checked=${right !== null} onChange=${(event) => compare(event.currentTarget.checked)} /> compare with another</label>
            </div>
            ${right && html`<${Side} side=${right} rankings=${access.rankings} collections=${collections} onChange=${setRight} label="Compare with" other byExamples=${kind === "examples"} />`}
            <datalist id=${fieldList}>${fields.map((field) => html`<option value=${field}></option>`)}</datalist>
            <div class="row" role="group" aria-label="More options">
              ${kind !== "examples" &&
              html`<${Field} label="Group by"><input list=${fieldList} size="12" placeholder="no field" value=${form.groupBy} onInput=${(event) => change({ groupBy: event.currentTarget.value })} /><//>
                <${Field} label="Count values of"><input list=${fieldList} size="12" placeholder="no field" value=${form.facet} onInput=${(event) => change({ facet: event.currentTarget.value })} /><//>
                <${Field} label="At least % sure"><input type="number" min="0" max="100" placeholder="any" value=${form.least} onInput=${(event) => change({ least: event.currentTarget.value })} /><//>`}
              ${byCodes && html`<${Field} label="Diversity"><input type="number" min="0" max="1" step="0.1" placeholder="0" value=${form.diversity} onInput=${(event) => change({ diversity: event.currentTarget.value })} /><//>`}
            </div>
            <${FilterBuilder} rows=${form.rows} all=${form.all} fields=${fields} onRows=${(rows) => change({ rows })} onAll=${(all) => change({ all })} />
          </div>
        </details>
      </form>
      <${Failure} error=${error} />
      <div aria-live="polite" class="visually-hidden">${busy ? "Searching" : first ? plural(flat(first).hits.length, "hit") : ""}</div>
      ${busy && !results && html`<${Waiting} what="Searching" />`}
      ${results && second && html`<${Note}>${moves(flat(first), flat(second))}<//>`}
      ${results &&
      html`<div class=${second ? "sides two" : "sides"}>
        <${Answer} answer=${first} other=${second} title=${name(results.sides[0])} isEmpty=${isEmpty(results.sides[0])} onSimilar=${byCodes && similar} />
        ${second
          ? html`<${Answer} answer=${second} other=${first} title=${name(results.sides[1])} isEmpty=${isEmpty(results.sides[1])} onSimilar=${byCodes && similar} />`
          : html`<div class="stack"><${Facets} answer=${first} onChoose=${narrow} /><${QueryDetails} answer=${first} /><${Snippets} collection=${results.sides[0].collection} body=${results.bodies[0]} /></div>`}
      </div>`}
      ${results && second &&
      html`<div class="columns"><${Facets} answer=${first} onChoose=${narrow} /><${QueryDetails} answer=${first} /><${Snippets} collection=${results.sides[0].collection} body=${results.bodies[0]} /></div>`}
      ${!results && !error && !busy && html`<${Empty} title="No search yet">Press Enter to search, and Shift+Enter for a new line.<//>`}
    </div>`;
}
