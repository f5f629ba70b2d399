// Codes as grids of bits.
import { html } from "./lib.js";

/** The bits of a code in hexadecimal; bit 0 is the most significant bit of the first byte. */
export function bitsOf(code) {
  const bits = [];
  for (let start = 0; start < code.length; start += 2) {
    const byte = parseInt(code.slice(start, start + 2), 16);
    for (let bit = 7; bit >= 0; bit -= 1) bits.push((byte >> bit) & 1);
  }
  return bits;
}

/** A code as squares; bits that differ from the query's have a colour of their own. */
export function BitGrid({ code, differing, cell = 6 }) {
  const bits = bitsOf(code);
  const width = Math.max(8, 2 ** Math.ceil(Math.log2(Math.sqrt(bits.length * 2))));
  const rows = Math.ceil(bits.length / width);
  const paths = { one: "", zero: "", differs: "" };
  const different = new Set(differing);
  bits.forEach((bit, place) => {
    const kind = different.has(place) ? "differs" : bit ? "one" : "zero";
    paths[kind] += `M${(place % width) * cell} ${Math.floor(place / width) * cell}h${cell - 1}v${cell - 1}h${1 - cell}z`;
  });
  const listed = differing.slice(0, 24).join(", ") + (differing.length > 24 ? ", …" : "");
  const title = differing.length
    ? `${differing.length} of ${bits.length} bits differ: ${listed}`
    : `None of the ${bits.length} bits differs`;
  return html`<svg class="bits" role="img" aria-label=${title} width=${width * cell} height=${rows * cell} viewBox=${`0 0 ${width * cell} ${rows * cell}`}>
    <title>${title}</title>
    ${Object.entries(paths).map(([kind, path]) => path && html`<path class=${kind} d=${path} />`)}
  </svg>`;
}
