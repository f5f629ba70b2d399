// Training: another encoder for a collection, from its labels, compared with the one in use.
import { html } from "../lib.js";
import { get, pathOf } from "../api.js";
import { useLabelField } from "../labelfield.js";
import { CollectionPicker, Failure, Field, NoCollection, NoDocuments, Note, Waiting, useLoaded } from "../parts.js";
import { Retraining } from "../retraining.js";

function Workplace({ collection, about, field }) {
  const query = field ? `?${new URLSearchParams({ label_field: field })}` : "";
  const { data, error, reload } = useLoaded((signal) => get(`${pathOf(collection)}/labels/stats${query}`, { signal }), [collection, field]);
  return html`<div class="stack"><${Failure} error=${error} />
    ${data?.documents === 0 ? html`<${NoDocuments} />` : html`<${Retraining} collection=${collection} field=${field} onChanged=${reload} stats=${data} about=${about} />`}</div>`;
}

export default function Training({ collections, collection, params, setParams, can, link }) {
  const { field, shown, choose } = useLabelField(collection, params, setParams);
  return html`
    <div class="head"><h1>Training</h1>
      ${collection && html`<${CollectionPicker} collections=${collections} value=${collection} onChange=${(name) => setParams({ collection: name, field: "" })} />
        <span class="spacer"></span>
        <${Field} label="Label field" class="inline"><input size="10" placeholder="by hand only" value=${shown} onChange=${(event) => choose(event.currentTarget.value)} /><//>`}
    </div>
    ${!collection ? html`<${NoCollection} />`
      : !can("admin") ? html`<${Note}>Training takes a key with the role admin, at a service that may write.<//>`
      : field === null ? html`<${Waiting} />`
      : html`<div class="stack"><${Workplace} key=${`${collection} ${field}`} about=${collections.find((each) => each.name === collection)} collection=${collection} field=${field} />
        <p class="what">More labels: <a href=${link("judging", { collection })}>Judging</a>. Figures on queries of your own: <a href=${link("evaluation", { collection })}>Evaluation</a>.</p></div>`}`;
}
