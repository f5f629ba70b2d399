// The points of a map as the service sends them, and the colours they can have.
import { count, moment, percent, plural } from "./format.js";

const OTHER = 65534;
const NONE = 65535;
const UNKNOWN = 255;
// Twenty colours that can be told apart in both themes; those of frequent labels differ most. Labels
// after the twentieth repeat the colours, paler.
const HUES = [
  [58, 92, 190], [214, 106, 32], [28, 134, 92], [186, 44, 112], [140, 110, 14], [34, 150, 186],
  [122, 72, 196], [208, 58, 54], [110, 150, 34], [128, 96, 84], [104, 146, 232], [232, 154, 96],
  [96, 190, 152], [226, 122, 180], [206, 176, 60], [20, 98, 112], [180, 142, 236], [132, 34, 42],
  [64, 88, 26], [88, 96, 122],
];
const LISTED = 24;

export function readPoints(buffer, described) {
  const n = described.points;
  let offset = 0;
  // A column may begin anywhere; a copy of it begins where numbers may.
  const take = (type, each = 1) => {
    const end = offset + n * each * type.BYTES_PER_ELEMENT;
    const column = new type(buffer.slice(offset, end));
    offset = end;
    return column;
  };
  const points = { count: n, x: take(Float32Array), y: take(Float32Array), age: take(Float32Array), documents: take(Uint32Array) };
  const labels = () => ({ label: take(Uint16Array), purity: take(Uint8Array) });
  const field = labels();
  const size = described.n_bits / 8;
  const codes = take(Uint8Array, size);
  points.time = described.time ? take(Float32Array) : null;
  const given = described.given_labels.length ? labels() : null;
  points.learned = described.learned_documents == null ? null : take(Uint8Array);
  const code = (point) => Array.from(codes.subarray(point * size, (point + 1) * size), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let places = null;
  const find = (hex) => {
    places ??= new Map(Array.from({ length: n }, (_, point) => [code(point), point]));
    return places.get(hex) ?? -1;
  };
  return { ...points, field, given, code, find };
}

/** The sets of labels that a map has, by name: those of the payload's field and those set by hand. */
export function labelSets(points, described) {
  const field = { ...points.field, names: described.labels, documents: described.label_documents };
  const given = points.given && { ...points.given, names: described.given_labels, documents: described.given_label_documents };
  return given ? { field, given } : { field };
}

const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
const mix = (colour, target, share) => colour.map((part, channel) => Math.round(part + (target[channel] - part) * share));

/** A ramp of colours through the given ones. */
const ramp = (share, ...stops) => {
  const position = Math.min(stops.length - 1.0001, Math.max(0, share * (stops.length - 1)));
  return mix(stops[Math.floor(position)], stops[Math.floor(position) + 1], position % 1);
};

export function palette(dark) {
  const ground = dark ? [23, 26, 25] : [255, 255, 255];
  const lift = (colour) => (dark ? mix(colour, [255, 255, 255], 0.28) : colour);
  const label = (place) => mix(lift(HUES[place % HUES.length]), ground, Math.min(0.6, 0.3 * Math.floor(place / HUES.length)));
  const times = (share) => ramp(share, dark ? [60, 78, 140] : [200, 212, 240], lift([66, 99, 184]), dark ? [240, 190, 120] : [176, 74, 24]);
  return {
    ground,
    grey: dark ? [98, 106, 102] : [176, 178, 174],
    faded: dark ? [48, 54, 51] : [226, 227, 224],
    label,
    purity: (share) => ramp(share, lift([178, 60, 48]), dark ? [214, 180, 110] : [222, 186, 96], lift([22, 120, 92])),
    time: times,
    learned: (share) => ramp(share, lift([66, 99, 184]), dark ? [190, 170, 150] : [190, 176, 160], lift([214, 106, 32])),
    age: times,
    documents: (share) => ramp(share, dark ? [58, 70, 66] : [198, 214, 208], lift([20, 112, 84]), dark ? [232, 240, 170] : [12, 52, 60]),
  };
}

/** The colour of every point. With `only`, points of other labels than this place are faded. */
export function colourBy(points, labels, by, colours, only = null) {
  const out = new Uint32Array(points.count);
  const colourOf = {
    label: (point) => (labels.label[point] >= OTHER ? colours.grey : colours.label(labels.label[point])),
    purity: (point) => (labels.purity[point] === UNKNOWN ? colours.grey : colours.purity(labels.purity[point] / 254)),
    time: (point) => (Number.isNaN(points.time[point]) ? colours.grey : colours.time(points.time[point])),
    learned: (point) => colours.learned(points.learned[point] / 254),
    age: (point) => colours.age(points.age[point]),
    documents: (point) => colours.documents(Math.min(1, Math.log2(points.documents[point]) / 10)),
  }[by];
  const faded = packed(colours.faded);
  for (let point = 0; point < points.count; point += 1)
    out[point] = by === "label" && only != null && labels.label[point] !== only ? faded : packed(colourOf(point));
  return out;
}

/** The entries of the legend of labels: {place, colour, name, documents}, the most frequent first. */
export function labelLegend(labels, colours) {
  const named = labels.names.slice(0, LISTED).map((name, place) => ({ place, colour: colours.label(place), name, documents: count(labels.documents[place]) }));
  const rest = labels.names.length - named.length;
  if (rest > 0) named.push({ place: null, colour: colours.grey, name: plural(rest, "more label"), documents: "" });
  return named;
}

/** What a scale of colours means: a sentence, its ends and its middle, and what grey points are. */
export function scaleOf(points, described, by) {
  if (by === "purity")
    return { what: "Share of a code's labelled documents that have its label", ticks: ["0 %", "50 %", "100 %"], grey: "no document has a label" };
  if (by === "learned")
    return { what: `Share of a code's documents that the encoder learned from: ${count(described.learned_documents)} of ${count(described.documents)} in all`, ticks: ["none", "half", "all"] };
  if (by === "age") return { what: "When a code's documents were inserted", ticks: ["first", "middle", "last"] };
  if (by === "documents") return { what: "Documents per code", ticks: ["1", "32", "1,024 or more"] };
  const { field, kind, start, end, least, most, documents } = described.time;
  const [from, to] = [start, end].map((value) => (kind === "date" ? Date.parse(value) : value));
  const half = from / 2 + to / 2;
  const show = kind === "date" ? (value) => moment(value, to - from) : number;
  const [below, above] = kind === "date" ? ["before", "after"] : ["less", "more"];
  const ends = [show(from) + (least === start ? "" : ` or ${below}`), show(to) + (most === end ? "" : ` or ${above}`)];
  const ticks = from === to ? [show(from)] : [ends[0], show(half), ends[1]];
  const without = described.documents - documents;
  return { what: `${field}, the mean of a code's documents`, ticks, grey: without > 0 ? `${plural(without, "document")} without ${field}` : null };
}

/** A number as a tick shows it. Whole ones have no separators: most of them are years. */
const number = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4))));

export const labelOf = (labels, point) =>
  labels.label[point] === NONE ? "no label" : labels.label[point] === OTHER ? "another label" : labels.names[labels.label[point]];

export const purityOf = (labels, point) => (labels.purity[point] === UNKNOWN ? null : labels.purity[point] / 254);

export { packed };
