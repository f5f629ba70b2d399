// The hits of a search, and how its text was understood.
import { html } from "./lib.js";
import { BitGrid } from "./bits.js";
import { count, displayValue, figure, plural, short } from "./format.js";
import { Note, Panel, Tag } from "./parts.js";

/** A passage with the query's terms marked; positions count code points. */
export function Passage({ highlight, text }) {
  if (!highlight) return text ? html`<p class="passage">${short(text, 320)}</p>` : null;
  const points = Array.from(highlight.passage);
  const parts = [];
  let end = 0;
  for (const [start, stop] of highlight.marks) {
    parts.push(points.slice(end, start).join(""), html`<mark>${points.slice(start, stop).join("")}</mark>`);
    end = stop;
  }
  parts.push(points.slice(end).join(""));
  return html`<p class="passage">${highlight.start > 0 && "… "}${parts}</p>`;
}

/** A payload without `label`, if another field has the same value. */
function withoutCopies(payload) {
  const { label, ...rest } = payload ?? {};
  const isCopy = label !== undefined && Object.values(rest).some((value) => displayValue(value) === displayValue(label));
  return isCopy ? rest : payload ?? {};
}

export function Payload({ payload, most = 5 }) {
  const entries = Object.entries(withoutCopies(payload));
  return entries.slice(0, most).map(
    ([name, value]) => html`<${Tag} title=${`${name}: ${short(displayValue(value), 400)}`}>${short(name, 24)} ${short(displayValue(value), 40)}<//>`,
  );
}

function Moved({ before, rank }) {
  if (before === undefined) return null;
  if (before === null) return html`<span class="moved new">not in the other list</span>`;
  const by = before - rank;
  if (!by) return html`<span class="moved">same rank</span>`;
  return html`<span class=${`moved ${by > 0 ? "up" : "down"}`}>${by > 0 ? "▲" : "▼"} ${Math.abs(by)}, rank ${before + 1} in the other list</span>`;
}

export function Hits({ answer, other, onSimilar }) {
  const byDistance = answer.ranking === "hamming" && !answer.rescored_by;
  const otherRanks = other && new Map(other.hits.map((hit, rank) => [hit.id, rank]));
  return html`<ol class="hits">
    ${answer.hits.map(
      (hit, rank) => html`<li class="hit" key=${hit.id}>
        <span class="rank">${rank + 1}</span>
        <div class="id">${hit.id}</div>
        <${Passage} highlight=${hit.highlight} text=${hit.text} />
        <div class="more">
          ${otherRanks && html`<${Moved} rank=${rank} before=${otherRanks.has(hit.id) ? otherRanks.get(hit.id) : null} />`}
          <${Payload} payload=${hit.payload} />
          ${onSimilar && html`<button type="button" class="button plain small" onClick=${() => onSimilar(hit.id)}>More like this</button>`}
        </div>
        <div class="measure">
          ${byDistance
            ? html`<span><b>${hit.distance}</b> ${hit.distance === 1 ? "bit" : "bits"}</span><span>score ${figure(hit.score)}</span>`
            : html`<span>score <b>${figure(hit.score)}</b></span>${hit.distance !== null && html`<span>${plural(hit.distance, "bit")}</span>`}`}
          ${hit.confidence != null && html`<span title="The probability that the hit answers the query">${Math.round(100 * hit.confidence)} % sure</span>`}
          ${hit.code && html`<${BitGrid} code=${hit.code} differing=${hit.differing_bits ?? []} />`}
        </div>
      </li>`,
    )}
  </ol>`;
}

/** The hits of groups under the values that they share. */
export function Groups({ answer, ...rest }) {
  return answer.groups.map(
    (group) => html`<section class="group" key=${String(group.id)}>
      <h3>${displayValue(group.id)}</h3>
      <${Hits} answer=${{ ...answer, hits: group.hits }} ...${rest} />
    </section>`,
  );
}

const bucketName = (bucket) => ("value" in bucket ? displayValue(bucket.value) : `${bucket.from ?? "…"} – ${bucket.to ?? "…"}`);

const COUNTED = { words: "of those with a word of the query", best: "of the best", found: "of those found" };

/** Counts of the values of fields; choosing one adds it to the filter. */
export function Facets({ answer, onChoose }) {
  return (answer.facets ?? []).map((facet) => {
    const most = Math.max(1, ...facet.buckets.map((bucket) => bucket.count));
    const left = facet.distinct - facet.buckets.length;
    return html`<${Panel} key=${facet.field} title=${facet.field} what=${`${plural(facet.documents, "document")} ${COUNTED[answer.facets_over]} ${facet.documents === 1 ? "has" : "have"} this field${left > 0 ? `; ${count(left)} more values` : ""}.`}>
      <div class="inside terms">${facet.buckets.map(
        (bucket) => html`<div class="term">
          <button type="button" class="button plain small break" title="Search only where the field has this value" onClick=${() => onChoose(facet.field, bucket.value)}>${short(bucketName(bucket), 40)}</button>
          <span class="bar"><svg viewBox="0 0 100 7" preserveAspectRatio="none" aria-hidden="true"><rect width=${(100 * bucket.count) / most} height="7" /></svg></span>
          <span>${count(bucket.count)}</span>
        </div>`,
      )}</div>
    <//>`;
  });
}

/** A sentence on how two lists of hits differ. */
export function moves(left, right) {
  const otherRanks = new Map(right.hits.map((hit, rank) => [hit.id, rank]));
  const both = left.hits.filter((hit) => otherRanks.has(hit.id));
  const shifts = left.hits.flatMap((hit, rank) => (otherRanks.has(hit.id) ? [Math.abs(otherRanks.get(hit.id) - rank)] : []));
  const moved = shifts.filter(Boolean).length;
  const mean = shifts.length ? shifts.reduce((sum, by) => sum + by, 0) / shifts.length : 0;
  const common = `${both.length} of ${left.hits.length} hits on the left are also on the right`;
  return moved ? `${common}; ${count(moved)} of them have another rank, ${mean.toFixed(1)} higher or lower on average.` : `${common}, at the same ranks.`;
}

export function QueryDetails({ answer }) {
  const terms = answer.query_terms ?? [];
  const most = Math.max(1e-9, ...terms.map((term) => term.influence));
  return html`<${Panel} title=${answer.query_terms ? "How the query was encoded" : "The search"} what=${
    terms.length ? "Terms by influence: how much the probabilities of the bits change without the term." : null
  }>
    <div class="inside stack">
      ${answer.recognized_terms === 0 &&
      html`<${Note} kind="warn">The encoder knows none of these words, so codes find nothing. The ranking bm25 can still find documents that contain them.<//>`}
      ${answer.warnings?.map((warning) => html`<${Note} kind="warn">${warning}<//>`)}
      ${answer.corrected?.length > 0 &&
      html`<${Note}>Searched for ${answer.corrected.map(([from, to], place) => html`${place > 0 && ", "}<b>${to}</b> instead of <b>${from}</b>`)}.<//>`}
      ${Object.entries(answer.expanded ?? {}).map(([word, others]) => html`<${Note}><b>${word}</b> also finds ${others.join(", ")}.<//>`)}
      ${terms.length > 0 &&
      html`<div class="terms">${terms.slice(0, 14).map(
        (term) => html`<div class="term">
          <span class="break">${term.term}</span>
          <span class="bar"><svg viewBox="0 0 100 7" preserveAspectRatio="none" aria-hidden="true"><rect width=${(100 * term.influence) / most} height="7" /></svg></span>
          <span title=${term.flipped_bits.length ? `Without this term, these bits change: ${term.flipped_bits.join(", ")}` : "Without this term, no bit changes"}>${plural(term.flipped_bits.length, "bit")}</span>
        </div>`,
      )}</div>`}
      ${answer.query_code && html`<div><p class="what">Code of the query</p><${BitGrid} code=${answer.query_code} differing=${[]} cell=${8} /></div>`}
      <dl class="facts">
        ${answer.recognized_terms != null && html`<div><dt>Recognized terms</dt><dd>${count(answer.recognized_terms)}</dd></div>`}
        <div><dt>Time</dt><dd>${answer.took_ms.toFixed(1)} <small>ms</small></dd></div>
        <div><dt>Generation</dt><dd>${count(answer.generation)}</dd></div>
        <div><dt>Ranking</dt><dd>${answer.ranking}</dd></div>
        ${answer.rescored_by && html`<div><dt>Rescored by</dt><dd>${answer.rescored_by}</dd></div>`}
        <div><dt>Engine</dt><dd>${answer.engine}</dd></div>
      </dl>
      ${answer.ties_cut && html`<p class="what">Other documents have the last hit's score and were left out.</p>`}
    </div>
  <//>`;
}
