// Small plots as SVG. Each has a label for people who cannot see it.
import { html, useEffect, useRef, useState } from "./lib.js";
import { figure } from "./format.js";

const LEFT = 40;
const BOTTOM = 24;

/** Round steps from 0 to at least `most`, about `count` of them. */
function ticks(most, count = 4) {
  const rough = (most || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
  return Array.from({ length: Math.ceil((most || 1) / step - 1e-9) + 1 }, (_, index) => index * step);
}

const nice = (value) => (Math.abs(value) >= 10_000 ? `${Number((value / 1000).toPrecision(3))}k` : String(Number(value.toPrecision(4))));

/** A reference to an element and its width in pixels. A plot drawn to it keeps the size of its letters. */
function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(560);
  useEffect(() => {
    if (!element.current) return undefined;
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(Math.max(160, Math.round(contentRect.width))));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

function Frame({ element, width, label, height, rows, y, children, xLabel }) {
  return html`<svg class="chart" ref=${element} role="img" aria-label=${label} height=${height} viewBox=${`0 0 ${width} ${height}`}>
    ${rows.map((value) => html`<line class="grid" x1=${LEFT} x2=${width} y1=${y(value)} y2=${y(value)} />
      <text x=${LEFT - 6} y=${y(value) + 3.5} text-anchor="end">${nice(value)}</text>`)}
    ${children}
    ${xLabel && html`<text x=${(LEFT + width) / 2} y=${height - 1} text-anchor="middle">${xLabel}</text>`}
  </svg>`;
}

/** Bars of values from 0, with `names` below some of them; `line` is the height of a good value. */
export function Bars({ values, names, label, line, most, height = 170, xLabel, kind = "one", tip }) {
  const [element, width] = useWidth();
  const top = most ?? Math.max(...values, 0);
  const rows = ticks(top);
  const low = height - BOTTOM - (xLabel ? 12 : 0);
  const y = (value) => low - ((low - 8) * value) / rows.at(-1);
  const step = (width - LEFT) / values.length;
  const gap = step > 6 ? Math.min(4, step * 0.18) : step > 2.5 ? 0.7 : 0;
  const every = Math.ceil((names?.length ?? 0) / Math.max(1, Math.floor((width - LEFT) / 46)));
  return html`<${Frame} element=${element} width=${width} label=${label} height=${height} rows=${rows} y=${y} xLabel=${xLabel}>
    ${values.map((value, index) => html`<rect class=${typeof kind === "function" ? kind(value, index) : kind} x=${LEFT + index * step + gap / 2} width=${Math.max(0.5, step - gap)} y=${y(value)} height=${Math.max(0, low - y(value))}>
      <title>${tip ? tip(value, index) : figure(value)}</title></rect>`)}
    ${line != null && html`<line class="axis" stroke-dasharray="4 3" x1=${LEFT} x2=${width} y1=${y(line)} y2=${y(line)} />`}
    <line class="axis" x1=${LEFT} x2=${width} y1=${low} y2=${low} />
    ${names?.map((name, index) => index % every === 0 && html`<text x=${LEFT + (index + 0.5) * step} y=${low + 14} text-anchor="middle">${name}</text>`)}
  <//>`;
}

/** Lines over x; a point is [x, y] or [x, y, low, high], which is drawn as a band. */
export function Lines({ series, label, xLabel, height = 220, log = false, most, least = 0 }) {
  const [element, width] = useWidth();
  const points = series.flatMap((line) => line.points);
  if (!points.length) return null;
  const scale = log ? (x) => Math.log10(Math.max(x, 1e-9)) : (x) => x;
  const xs = points.map(([x]) => scale(x));
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const rows = ticks(most ?? Math.max(...points.map(([, y, , high]) => high ?? y))).filter((value) => value >= least);
  const low = height - BOTTOM - (xLabel ? 14 : 0);
  const span = rows.at(-1) - rows[0] || 1;
  const y = (value) => low - ((low - 8) * (value - rows[0])) / span;
  const x = (value) => LEFT + 8 + ((width - LEFT - 24) * (scale(value) - first)) / (last - first || 1);
  const path = (list, column) => list.map((point, index) => `${index ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[column]).toFixed(1)}`).join("");
  const labels = [...new Set(points.map(([value]) => value))].sort((a, b) => a - b);
  // The reference stays, for when there are more.
  if (labels.length < 2) {
    const said = series.map((line) => `${line.name} is ${line.points.map(([, value]) => figure(value)).join(" and ")}`).join(", ");
    return html`<p class="what" ref=${element}>${said}, at ${nice(labels[0])}${xLabel ? ` ${xLabel}` : ""}. A curve takes more than one point.</p>`;
  }
  const every = Math.ceil(labels.length / Math.max(1, Math.floor((width - LEFT) / 60)));
  const kinds = ["one", "two", "three"];
  return html`<${Frame} element=${element} width=${width} label=${label} height=${height} rows=${rows} y=${y} xLabel=${xLabel}>
    ${series.map((line, index) => {
      const band = line.points.length > 1 && line.points[0].length === 4 && `${path(line.points, 2)}${path([...line.points].reverse(), 3).replace("M", "L")}Z`;
      return html`${band && html`<path class="band" d=${band} />`}
        <path class=${`line ${kinds[index % 3]}`} d=${path(line.points, 1)} />
        ${line.points.map((point) => html`<circle class=${kinds[index % 3]} cx=${x(point[0])} cy=${y(point[1])} r="3"><title>${line.name}: ${figure(point[1])} at ${nice(point[0])}</title></circle>`)}`;
    })}
    <line class="axis" x1=${LEFT} x2=${width} y1=${low} y2=${low} />
    ${labels.map((value, index) => index % every === 0 && html`<text x=${x(value)} y=${low + 14} text-anchor="middle">${nice(value)}</text>`)}
  <//>`;
}

export const Legend = ({ names }) =>
  html`<div class="legend">${names.map((name, index) => html`<span><i class=${`dot-${(index % 3) + 1}`}></i>${name}</span>`)}</div>`;

/** A square matrix of values from -1 to 1: blue below 0, red above. */
export function Heat({ values, label }) {
  const canvas = useRef(null);
  useEffect(() => {
    const n = values.length;
    const element = canvas.current;
    element.width = element.height = n;
    const context = element.getContext("2d");
    const image = context.createImageData(n, n);
    values.forEach((row, rowIndex) => row.forEach((value, column) => {
      const strength = rowIndex === column ? 0 : Math.min(1, Math.abs(value)) ** 0.7;
      const colour = value > 0 ? [196, 62, 40] : [52, 92, 190];
      image.data.set([...colour, Math.round(255 * strength)], 4 * (rowIndex * n + column));
    }));
    context.putImageData(image, 0, 0);
  }, [values]);
  return html`<canvas class="heat" ref=${canvas} role="img" aria-label=${label}></canvas>`;
}
