// Draws a hundred thousand points on a canvas: each is a stamp of pixels, written into one image. It
// does not use WebGL, so it draws the same on every machine.
const MAX_PIXELS = 4_200_000;
const SIZES = 14;

/** Discs by radius, as lists of [dx, dy, coverage]. */
function stamps(radiusOf) {
  return Array.from({ length: SIZES }, (_, step) => {
    const radius = radiusOf(step);
    const reach = Math.ceil(radius);
    const pixels = [];
    for (let dy = -reach; dy <= reach; dy += 1)
      for (let dx = -reach; dx <= reach; dx += 1) {
        const cover = Math.min(1, radius + 0.5 - Math.hypot(dx, dy));
        if (cover > 0.08) pixels.push([dx, dy, Math.round(cover * 256)]);
      }
    return pixels;
  });
}

/** The size of a point by the documents of its code: its area grows with their logarithm. */
export const sizeOf = (documents) => Math.min(SIZES - 1, Math.floor(1.5 * Math.log2(documents)));

export class Raster {
  constructor(canvas, points) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.points = points;
    this.view = { x: 0, y: 0, scale: 1 };
    this.sizes = Uint8Array.from(points.documents, sizeOf);
    // Small points are drawn last, so that frequent codes do not hide rare ones.
    this.order = Uint32Array.from({ length: points.count }, (_, point) => point).sort((a, b) => this.sizes[b] - this.sizes[a]);
    this.colours = new Uint32Array(points.count).fill(0xff888888);
    this.ground = 0xffffffff;
    this.owner = null;
  }

  /** The radius of a size, in pixels of the page: fewer points have more room. */
  radius(size) {
    const room = Math.min(this.width, this.height) / this.ratio / Math.sqrt(this.points.count);
    return Math.min(3.2, Math.max(0.8, 0.2 * room)) + size * 0.62;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = Math.min(devicePixelRatio || 1, Math.sqrt(MAX_PIXELS / (width * height)));
    this.ratio = ratio;
    this.width = this.canvas.width = Math.round(width * ratio);
    this.height = this.canvas.height = Math.round(height * ratio);
    this.image = this.context.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.stamps = stamps((step) => this.radius(step) * ratio);
  }

  /** Pixels of the canvas for a place, -1 to 1. */
  project(x, y) {
    const { view, width, height } = this;
    const unit = (Math.min(width, height) / 2) * 0.94 * view.scale;
    return [width / 2 + (x - view.x) * unit, height / 2 - (y - view.y) * unit];
  }

  /** The place under a point of the page's own pixels within the canvas. */
  place(left, top) {
    const unit = (Math.min(this.width, this.height) / 2) * 0.94 * this.view.scale;
    return [
      this.view.x + (left * this.ratio - this.width / 2) / unit,
      this.view.y - (top * this.ratio - this.height / 2) / unit,
    ];
  }

  draw() {
    if (!this.pixels) this.resize();
    if (!this.pixels) return;
    const { pixels, width, height, points, order, colours, sizes, view } = this;
    pixels.fill(this.ground);
    const unit = (Math.min(width, height) / 2) * 0.94 * view.scale;
    const left = width / 2 - view.x * unit;
    const top = height / 2 + view.y * unit;
    for (const point of order) {
      const x = Math.round(left + points.x[point] * unit);
      const y = Math.round(top - points.y[point] * unit);
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      this.stamp(this.stamps[sizes[point]], x, y, colours[point]);
    }
    this.context.putImageData(this.image, 0, 0);
    this.owner = null;
  }

  stamp(stamp, x, y, colour) {
    const { pixels, width, height } = this;
    const blue = (colour >> 16) & 255;
    const green = (colour >> 8) & 255;
    const red = colour & 255;
    for (const [dx, dy, cover] of stamp) {
      const column = x + dx;
      const row = y + dy;
      if (column < 0 || row < 0 || column >= width || row >= height) continue;
      const pixel = row * width + column;
      if (cover >= 256) {
        pixels[pixel] = colour;
        continue;
      }
      const under = pixels[pixel];
      const rest = 256 - cover;
      const mixed = (part, by) => (part * cover + ((under >> by) & 255) * rest) >> 8;
      pixels[pixel] = (255 << 24) | (mixed(blue, 16) << 16) | (mixed(green, 8) << 8) | mixed(red, 0);
    }
  }

  /** The point drawn at a place of the canvas, the topmost of several, or -1. */
  pick(left, top) {
    if (!this.owner) this.fillOwners();
    const x = Math.round(left * this.ratio);
    const y = Math.round(top * this.ratio);
    for (let reach = 0; reach <= 5; reach += 1)
      for (let dy = -reach; dy <= reach; dy += 1)
        for (let dx = -reach; dx <= reach; dx += 1) {
          if (Math.max(Math.abs(dx), Math.abs(dy)) !== reach) continue;
          const column = x + dx;
          const row = y + dy;
          if (column < 0 || row < 0 || column >= this.width || row >= this.height) continue;
          const point = this.owner[row * this.width + column];
          if (point >= 0) return point;
        }
    return -1;
  }

  fillOwners() {
    this.owner = new Int32Array(this.width * this.height).fill(-1);
    for (const point of this.order) {
      const [px, py] = this.project(this.points.x[point], this.points.y[point]);
      const x = Math.round(px);
      const y = Math.round(py);
      if (x < 0 || y < 0 || x >= this.width || y >= this.height) continue;
      const reach = Math.ceil(this.radius(this.sizes[point]) * this.ratio);
      for (let row = Math.max(0, y - reach); row <= Math.min(this.height - 1, y + reach); row += 1)
        this.owner.fill(point, row * this.width + Math.max(0, x - reach), row * this.width + Math.min(this.width, x + reach + 1));
    }
  }
}

/** The points within a polygon: a ray from each crosses the outline an odd number of times. */
export function within(points, polygon) {
  const inside = [];
  const xs = polygon.map(([x]) => x);
  const ys = polygon.map(([, y]) => y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  for (let point = 0; point < points.count; point += 1) {
    const x = points.x[point];
    const y = points.y[point];
    if (x < left || x > right || y < low || y > high) continue;
    let isInside = false;
    for (let corner = 0, previous = polygon.length - 1; corner < polygon.length; previous = corner, corner += 1) {
      const [ax, ay] = polygon[corner];
      const [bx, by] = polygon[previous];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) isInside = !isInside;
    }
    if (isInside) inside.push(point);
  }
  return inside;
}
