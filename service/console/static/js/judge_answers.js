// Judgements of answers: the pooled hits of all rankings, the most informative first.
import { html, useState } from "./lib.js";
import { get, pathOf, put } from "./api.js";
import { count, plural } from "./format.js";
import { Payload } from "./hits.js";
import { statsAreDue, tidy, unlabelled } from "./judge_documents.js";
import { useKeys } from "./keys.js";
import { Button, Failure, Field, Note, Panel, Select } from "./parts.js";

const GRADES = [[0, "Not relevant"], [1, "Related"], [2, "Relevant"], [3, "Exact answer"]];
const METHODS = [["ap-prior", "largest weight in average precision"], ["difference", "largest disagreement of rankings"], ["depth-k", "best rank in any ranking"]];

export function AnswerJudge({ collection, about, who, can, onChanged }) {
  const [query, setQuery] = useState("");
  const [method, setMethod] = useState("ap-prior");
  const [pool, setPool] = useState(null);
  const [place, setPlace] = useState(0);
  const [judged, setJudged] = useState([]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const writes = can("write");
  const fetchPool = async (event) => {
    event.preventDefault();
    setError(null);
    setBusy(true);
    const parameters = new URLSearchParams({ query: query.trim(), n: "50", method });
    if (who) parameters.set("who", who);
    try {
      setPool(await get(`${pathOf(collection)}/judgements/pool?${parameters}`));
      setPlace(0);
      setJudged([]);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const current = pool?.documents[place];
  const write = (id, grade) => put(`${pathOf(collection)}/judgements`, { judgements: [{ query: pool.query, id, grade, ...(who && { who }) }] });
  const judge = async (grade) => {
    if (!current || busy || !writes) return;
    setBusy(true);
    setError(null);
    try {
      await write(current.id, grade);
      setJudged((before) => [{ place, id: current.id, grade }, ...before]);
      setPlace(place + 1);
      if (statsAreDue(judged.length) || place + 1 === pool.documents.length) onChanged();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const undo = async () => {
    const [last, ...rest] = judged;
    if (!last || busy) return;
    setBusy(true);
    try {
      await write(last.id, null);
      setJudged(rest);
      setPlace(last.place);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  useKeys({ ...Object.fromEntries(GRADES.map(([grade], choice) => [String(choice + 1), () => judge(grade)])), s: () => current && setPlace(place + 1), u: undo });
  if (!about.encoder && about.n_bits) return html`<${Note}>The documents of this collection come with codes. Without an encoder it takes no queries, so there are no answers to judge.<//>`;
  return html`
    <${Panel} title="Does it answer the query?" what="The first hits of all rankings are pooled, so that no ranking is favoured.">
      <div class="inside stack">
        <form class="row" onSubmit=${fetchPool}>
          <${Field} label="Query"><input type="search" size="36" value=${query} onInput=${(event) => setQuery(event.currentTarget.value)} /><//>
          <${Field} label="Order"><${Select} value=${method} options=${METHODS} onChange=${setMethod} /><//>
          <button class="button primary" type="submit" disabled=${!query.trim() || busy}>Pool the answers</button>
        </form>
        <${Failure} error=${error} />
        ${!writes && html`<${Note}>This key may read but not judge.<//>`}
        ${pool && html`<p class="what">${count(place)} of ${plural(pool.documents.length, "answer")} done; ${count(pool.judged)} were judged earlier.</p>`}
        ${pool && !current && html`<${Note} kind="good">No answers to this query are left to judge.<//>`}
        ${current && html`
          <progress max=${pool.documents.length} value=${place} aria-label="Judged answers"></progress>
          <div class="row"><b class="break">${current.id}</b> <${Payload} payload=${unlabelled(current.payload)} />
            <span class="what">${Object.entries(current.ranks).map(([ranking, rank]) => `${ranking} ${rank}`).join(", ")}</span></div>
          <div class="subject" tabindex="0" role="group" aria-label="Text of the answer">${current.text ? tidy(current.text) : "This document has no text."}</div>
          ${writes && html`<div class="row">${GRADES.map(([grade, name], choice) => html`<${Button} disabled=${busy} onClick=${() => judge(grade)}><kbd>${choice + 1}</kbd> ${name}<//>`)}
            <${Button} onClick=${() => setPlace(place + 1)}><kbd>s</kbd> Skip<//><${Button} disabled=${!judged.length || busy} onClick=${undo}><kbd>u</kbd> Undo<//></div>`}`}
        <p class="visually-hidden" role="status">${judged[0] ? `${judged[0].id} has the grade ${judged[0].grade}` : ""}</p>
      </div>
    <//>`;
}
