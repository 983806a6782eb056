// Heat maps over an image on a canvas: one of the whole image, and later ones of regions above it.

import { Scale, filled } from "./scale.js";

const SELECTION = "#8a3d00";
// Largest size of the image in the page, in pixels of style sheets.
const [WIDTH, HEIGHT] = [640, 560];

export class HeatMap {
  constructor(canvas, bar) {
    this.canvas = canvas;
    this.bar = bar;
    this.layers = [];
    this.image = null;
    this.selection = null;
    this.cursor = null;
    this.isShown = true;
  }

  setImage(image) {
    this.image = image;
    this.layers = [];
    this.selection = this.cursor = null;
    this.canvas.width = image.width;
    this.canvas.height = image.height;
    const zoom = Math.min(WIDTH / image.width, HEIGHT / image.height);
    this.canvas.style.width = `${Math.round(zoom * image.width)}px`;
    this.draw();
  }

  // Draw a document in place of the last one of the same request.
  show(id, map, isRegion) {
    const rest = this.layers.filter((layer) => layer.id !== id && isRegion && layer.subject === subject(map));
    this.layers = [...rest, { id, subject: subject(map), ...map, filled: filled(map.values, map.rows, map.columns) }];
    this.draw();
  }

  get scale() {
    const top = this.layers.at(-1);
    return top && new Scale(top.probability, this.layers.flatMap(({ values }) => values));
  }

  draw() {
    if (!this.image) return;
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const scale = this.scale;
    const isMapped = scale && this.isShown;
    context.filter = isMapped ? "grayscale(1)" : "none";
    context.drawImage(this.image, 0, 0, width, height);
    context.filter = "none";
    if (isMapped) for (const layer of this.layers) this.#drawLayer(context, layer, scale);
    if (scale) this.#drawBar(scale);
    const line = Math.max(1, width / 250);
    context.lineWidth = line;
    if (this.cursor) this.#outline(context, patchAt(this.cursor.layer, this.cursor.row, this.cursor.column), [line, line]);
    if (this.selection) this.#outline(context, this.selection, [3 * line, 2 * line]);
  }

  // Place under a point of the image: the layer, row and column of the top-most map; null outside of all.
  placeAt(x, y) {
    for (const layer of [...this.layers].reverse()) {
      const [row, column] = [index(layer.row_edges, y), index(layer.column_edges, x)];
      if (row >= 0 && column >= 0) return { layer, row, column };
    }
    return null;
  }

  describe({ layer, row, column }) {
    const value = layer.values[row * layer.columns + column];
    const [left, top, right, bottom] = patchAt(layer, row, column).map(Math.round);
    const where = `columns ${left} to ${right}, rows ${top} to ${bottom} covered`;
    if (value === null) return `Not computed yet: ${where}.`;
    const change = value - layer.probability;
    return `${layer.class_name} ${score(value)} (${change < 0 ? "−" : "+"}${score(Math.abs(change))}): ${where}.`;
  }

  #drawLayer(context, layer, scale) {
    const { row_edges: rows, column_edges: columns } = layer;
    context.save();
    context.beginPath();
    context.rect(columns[0], rows[0], columns.at(-1) - columns[0], rows.at(-1) - rows[0]);
    context.clip();
    // A region covers what is below it.
    context.filter = "grayscale(1)";
    context.drawImage(this.image, 0, 0, this.canvas.width, this.canvas.height);
    context.filter = "none";
    for (let row = 0; row < layer.rows; row += 1) {
      for (let column = 0; column < layer.columns; column += 1) {
        const value = layer.filled[row * layer.columns + column];
        if (value === null) continue;
        const [red, green, blue, opacity] = scale.isFlat ? [0, 0, 0, 0] : scale.colour(value);
        context.fillStyle = `rgb(${red} ${green} ${blue} / ${opacity})`;
        const [x, y] = [Math.round(columns[column]), Math.round(rows[row])];
        context.fillRect(x, y, Math.round(columns[column + 1]) - x, Math.round(rows[row + 1]) - y);
      }
    }
    context.restore();
  }

  #drawBar(scale) {
    const context = this.bar.getContext("2d");
    const { width, height } = this.bar;
    context.clearRect(0, 0, width, height);
    for (let y = 0; y < height; y += 1) {
      const [red, green, blue, opacity] = scale.colour(scale.high - (2 * scale.half * y) / (height - 1));
      context.fillStyle = `rgb(${red} ${green} ${blue} / ${opacity})`;
      context.fillRect(0, y, width, 1);
    }
  }

  #outline(context, [left, top, right, bottom], dash) {
    for (const [style, offset] of [["#ffffff", 0], [SELECTION, dash[0]]]) {
      context.strokeStyle = style;
      context.setLineDash(dash);
      context.lineDashOffset = offset;
      context.strokeRect(left, top, right - left, bottom - top);
    }
    context.setLineDash([]);
  }
}

export const score = (value) => (Math.abs(value) >= 0.001 || value === 0 ? value.toFixed(4) : value.toExponential(1));

const subject = (map) => JSON.stringify([map.image, map.network, map.class]);

// Left, top, right and bottom of the patch at a place.
function patchAt(layer, row, column) {
  const [width, height] = layer.patch_size;
  const [x, y] = [layer.column_starts[column], layer.row_starts[row]];
  return [x, y, x + width, y + height];
}

// Index of the interval between sorted edges that has a value, -1 for none.
function index(edges, value) {
  if (value < edges[0] || value >= edges.at(-1)) return -1;
  return edges.findIndex((edge) => edge > value) - 1;
}
