// The points of a map as the service sends them, and the colours they can have.
import { count, percent, plural } from "./format.js";

const OTHER = 65534;
const NONE = 65535;
const UNKNOWN = 255;
// Ten hues that can be told apart by most eyes, in both themes; more labels repeat them paler.
const HUES = [
  [66, 99, 184], [190, 88, 40], [32, 136, 96], [172, 52, 110], [134, 108, 20], [40, 140, 170],
  [122, 84, 190], [204, 66, 62], [96, 130, 40], [120, 100, 96],
];

export function readPoints(buffer, described) {
  const n = described.points;
  let at = 0;
  const take = (type) => {
    const column = new type(buffer, at, n);
    at += column.byteLength;
    return column;
  };
  const points = {
    count: n, x: take(Float32Array), y: take(Float32Array), age: take(Float32Array),
    documents: take(Uint32Array), label: take(Uint16Array), purity: take(Uint8Array),
  };
  const size = described.n_bits / 8;
  const codes = new Uint8Array(buffer, at, n * size);
  const code = (point) => Array.from(codes.subarray(point * size, (point + 1) * size), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let places = null;
  const find = (hex) => {
    places ??= new Map(Array.from({ length: n }, (_, point) => [code(point), point]));
    return places.get(hex) ?? -1;
  };
  return { ...points, code, find };
}

const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
const mix = (one, other, share) => one.map((part, at) => Math.round(part + (other[at] - part) * share));

/** A ramp of colours through the given ones. */
const ramp = (share, ...stops) => {
  const at = Math.min(stops.length - 1.0001, Math.max(0, share * (stops.length - 1)));
  return mix(stops[Math.floor(at)], stops[Math.floor(at) + 1], at % 1);
};

export function palette(dark) {
  const ground = dark ? [23, 26, 25] : [255, 255, 255];
  const lift = (colour) => (dark ? mix(colour, [255, 255, 255], 0.28) : colour);
  const label = (at) => mix(lift(HUES[at % HUES.length]), ground, Math.min(0.6, 0.3 * Math.floor(at / HUES.length)));
  return {
    ground,
    grey: dark ? [98, 106, 102] : [176, 178, 174],
    label,
    purity: (share) => ramp(share, lift([178, 60, 48]), dark ? [214, 180, 110] : [222, 186, 96], lift([22, 120, 92])),
    age: (share) => ramp(share, dark ? [60, 78, 140] : [200, 212, 240], lift([66, 99, 184]), dark ? [240, 190, 120] : [176, 74, 24]),
    size: (share) => ramp(share, dark ? [58, 70, 66] : [198, 214, 208], lift([20, 112, 84]), dark ? [232, 240, 170] : [12, 52, 60]),
    css: (colour) => `rgb(${colour.join(" ")})`,
  };
}

/** The colour of every point, and the legend that says what it means. */
export function colourBy(points, described, by, colours) {
  const out = new Uint32Array(points.count);
  const of = {
    label: (at) => (points.label[at] >= OTHER ? colours.grey : colours.label(points.label[at])),
    purity: (at) => (points.purity[at] === UNKNOWN ? colours.grey : colours.purity(points.purity[at] / 254)),
    age: (at) => colours.age(points.age[at]),
    documents: (at) => colours.size(Math.min(1, Math.log2(points.documents[at]) / 10)),
  }[by];
  for (let at = 0; at < points.count; at += 1) out[at] = packed(of(at));
  return out;
}

export function legendOf(described, by, colours) {
  if (by === "label") {
    const named = described.labels.slice(0, 24).map((name, at) => [colours.label(at), name, count(described.label_documents[at])]);
    const rest = described.labels.length > 24 ? [[colours.grey, `${described.labels.length - 24} more labels`, ""]] : [];
    return named.length ? [...named, ...rest] : [[colours.grey, "no document has a label", ""]];
  }
  const steps = [0, 0.25, 0.5, 0.75, 1];
  if (by === "purity") return steps.map((share) => [colours.purity(share), `${percent(share, 0)} of the code's documents have its label`, ""]);
  if (by === "age") return steps.map((share) => [colours.age(share), ["first inserted", "", "half way", "", "inserted last"][share * 4], ""]);
  return steps.map((share) => [colours.size(share), plural(Math.round(2 ** (10 * share)), "document"), ""]);
}

export const labelOf = (points, described, at) =>
  points.label[at] === NONE ? "no label" : points.label[at] === OTHER ? "another label" : described.labels[points.label[at]];

export const purityOf = (points, at) => (points.purity[at] === UNKNOWN ? null : points.purity[at] / 254);
export { packed };
