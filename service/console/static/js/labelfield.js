// The payload field that has a collection's labels: the one in the address, or the one that is found.
import { pathOf, post } from "./api.js";
import { displayValue } from "./format.js";
import { isLabelName } from "./judge_documents.js";
import { useLoaded } from "./parts.js";

/** In the address, so that no field is chosen in place of the one that is found. */
const NONE = "-";
const SAMPLE = 200;

/** The payload field that has a label by its name, and the values that some documents have in it. */
async function knownLabels(collection, signal) {
  const { documents } = await post(`${pathOf(collection)}/documents:scroll`, { limit: SAMPLE }, { signal });
  const payloads = documents.map((document) => document.payload ?? {});
  const names = [...new Set(payloads.flatMap(Object.keys))].filter(isLabelName);
  const field = names.find((name) => name === "label") ?? names[0];
  if (!field) return { field: "", values: [] };
  const values = payloads.flatMap((payload) => [payload[field] ?? []].flat()).map(displayValue);
  return { field, values: [...new Set(values)].sort() };
}

/** The field that counts, null until it is known; what an input shows; and the labels of some documents. */
export function useLabelField(collection, params, setParams) {
  const { data, loading } = useLoaded(async (signal) => (collection ? knownLabels(collection, signal).catch(() => null) : null), [collection]);
  const known = data ?? { field: "", values: [] };
  const given = params.field;
  const field = given === NONE ? "" : given || (loading ? null : known.field);
  return { field, shown: field ?? "", known, choose: (name) => setParams({ field: name.trim() || NONE }), none: NONE };
}
