// The canvas of a map: panning, zooming, picking a point and drawing around a region.
import { html, useEffect, useRef, useState } from "./lib.js";
import { count, plural } from "./format.js";
import { Button } from "./parts.js";
import { colourBy, labelOf, packed, palette } from "./points.js";
import { Raster, within } from "./raster.js";

const dark = () => document.documentElement.dataset.theme === "dark";

export function useTheme() {
  const [isDark, setDark] = useState(dark);
  useEffect(() => {
    const changed = () => setDark(dark());
    addEventListener("themechange", changed);
    return () => removeEventListener("themechange", changed);
  }, []);
  return isDark;
}

/** What lies over the points: the lasso, rings around neighbours, a cross for the query. */
function drawOver(raster, { lasso, rings, cross, ink }) {
  const { context, ratio } = raster;
  context.strokeStyle = ink;
  context.lineWidth = 1.5 * ratio;
  if (lasso.length > 1) {
    context.setLineDash([5 * ratio, 4 * ratio]);
    context.beginPath();
    lasso.forEach(([x, y]) => context.lineTo(...raster.project(x, y)));
    context.closePath();
    context.stroke();
    context.setLineDash([]);
  }
  for (const point of rings) {
    context.beginPath();
    context.arc(...raster.project(raster.points.x[point], raster.points.y[point]), (4 + raster.radius(raster.sizes[point])) * ratio, 0, 7);
    context.stroke();
  }
  if (cross) {
    const [x, y] = raster.project(...cross);
    context.lineWidth = 2.5 * ratio;
    context.beginPath();
    for (const [dx, dy] of [[9, 0], [0, 9]]) {
      context.moveTo(x - dx * ratio, y - dy * ratio);
      context.lineTo(x + dx * ratio, y + dy * ratio);
    }
    context.stroke();
  }
}

export function MapView({ points, labels, by, only, selected, rings, cross, onSelect }) {
  const canvas = useRef(null);
  const state = useRef({ lasso: [], drag: null, frame: 0 });
  const [mode, setMode] = useState("move");
  const [tip, setTip] = useState(null);
  const isDark = useTheme();

  const redraw = () => {
    const drawing = state.current;
    if (drawing.frame) return;
    drawing.frame = requestAnimationFrame(() => {
      drawing.frame = 0;
      const began = performance.now();
      drawing.raster.draw();
      drawOver(drawing.raster, { ...drawing.over, lasso: drawing.lasso });
      canvas.current.dataset.drawn = (performance.now() - began).toFixed(1);
    });
  };
  useEffect(() => {
    const drawing = state.current;
    drawing.raster = new Raster(canvas.current, points);
    const resized = new ResizeObserver(() => { drawing.raster.resize(); redraw(); });
    resized.observe(canvas.current);
    return () => { resized.disconnect(); cancelAnimationFrame(drawing.frame); drawing.frame = 0; };
  }, [points]);
  useEffect(() => {
    const colours = palette(isDark);
    const { raster } = state.current;
    raster.ground = packed(colours.ground);
    raster.colours = colourBy(points, labels, by, colours, only);
    if (selected.length) {
      const chosen = new Set(selected);
      const faded = packed(colours.faded);
      for (let point = 0; point < points.count; point += 1) if (!chosen.has(point)) raster.colours[point] = faded;
    }
    state.current.over = { rings, cross, ink: isDark ? "#ffffff" : "#14201b" };
    redraw();
  }, [points, labels, by, only, selected, rings, cross, isDark]);

  const spot = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const zoom = (factor, left, top) => {
    const { raster } = state.current;
    const { view } = raster;
    const [x, y] = raster.place(left ?? canvas.current.clientWidth / 2, top ?? canvas.current.clientHeight / 2);
    const scale = Math.min(400, Math.max(0.6, view.scale * factor));
    const share = 1 - view.scale / scale;
    raster.view = { x: view.x + (x - view.x) * share, y: view.y + (y - view.y) * share, scale };
    redraw();
  };
  const fit = () => { state.current.raster.view = { x: 0, y: 0, scale: 1 }; redraw(); };
  const pan = (dx, dy) => {
    const { raster } = state.current;
    const [x, y] = raster.place(canvas.current.clientWidth / 2 - dx, canvas.current.clientHeight / 2 - dy);
    raster.view = { ...raster.view, x, y };
    redraw();
  };
  const down = (event) => {
    if (event.button) return;
    canvas.current.setPointerCapture(event.pointerId);
    const pointer = spot(event);
    const lasso = mode === "lasso" || event.shiftKey;
    state.current.drag = { pointer, begin: pointer, lasso };
    if (lasso) state.current.lasso = [state.current.raster.place(...pointer)];
    setTip(null);
  };
  const move = (event) => {
    const { drag, raster, lasso } = state.current;
    const pointer = spot(event);
    if (!drag) {
      const point = raster.pick(...pointer);
      setTip(point < 0 ? null : { point, left: pointer[0], top: pointer[1] });
      return;
    }
    if (drag.lasso) {
      lasso.push(raster.place(...pointer));
      redraw();
    } else {
      pan(pointer[0] - drag.pointer[0], pointer[1] - drag.pointer[1]);
    }
    drag.pointer = pointer;
  };
  const up = () => {
    const { drag, raster, lasso } = state.current;
    state.current.drag = null;
    if (!drag) return;
    const far = Math.hypot(drag.pointer[0] - drag.begin[0], drag.pointer[1] - drag.begin[1]) > 4;
    if (drag.lasso && lasso.length > 2) onSelect(within(points, lasso));
    else if (!far) {
      const point = raster.pick(...drag.pointer);
      onSelect(point < 0 ? [] : [point]);
    }
    state.current.lasso = [];
    redraw();
  };
  const wheel = (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0016), ...spot(event));
  };
  useEffect(() => {
    // Preact adds passive listeners, which may not keep the page from scrolling.
    const element = canvas.current;
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [points]);
  const key = (event) => {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") onSelect([]);
    else return;
    event.preventDefault();
  };
  const inView = () => {
    const { raster } = state.current;
    const [left, top] = raster.place(0, 0);
    const [right, low] = raster.place(canvas.current.clientWidth, canvas.current.clientHeight);
    onSelect(within(points, [[left, top], [right, top], [right, low], [left, low]]));
  };
  return html`<div class="panel canvas"><div class="drawing">
    <canvas ref=${canvas} tabindex="0" role="img" style=${{ cursor: mode === "lasso" ? "crosshair" : "grab" }}
      aria-label=${`Map of ${count(points.count)} distinct codes. The arrow keys move it, plus and minus zoom, 0 shows all codes.`}
      onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerLeave=${() => setTip(null)} onKeyDown=${key}></canvas>
    ${tip &&
    html`<div class="tip" style=${{ left: `${Math.max(0, Math.min(tip.left + 14, canvas.current.clientWidth - 220))}px`, top: `${Math.min(tip.top + 14, canvas.current.clientHeight - 60)}px` }}>
      <b>${labelOf(labels, tip.point)}</b><br />${plural(points.documents[tip.point], "document")}
    </div>`}</div>
    <div class="tools">
      <div class="segments" role="group" aria-label="Effect of dragging">
        <button type="button" aria-pressed=${String(mode === "move")} onClick=${() => setMode("move")}>Move</button>
        <button type="button" aria-pressed=${String(mode === "lasso")} onClick=${() => setMode("lasso")}>Lasso</button>
      </div>
      <${Button} kind="small" aria-label="Zoom in" onClick=${() => zoom(1.5)}>+<//>
      <${Button} kind="small" aria-label="Zoom out" onClick=${() => zoom(1 / 1.5)}>−<//>
      <${Button} kind="small" onClick=${fit}>Show all<//>
      <${Button} kind="small" onClick=${inView}>Select all in view<//>
    </div>
  </div>`;
}
