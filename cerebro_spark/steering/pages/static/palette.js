// A colour and a dash for each drawn configuration. All colours have a contrast of at least 3:1 on white.

const COLOURS = ["#1f5fa8", "#b34700", "#1b7a2f", "#c0182b", "#6f3fa0", "#7a4a3a", "#b0268a", "#4d4d4d", "#6f7000", "#00788a"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [16, 4]];
const COUNT = COLOURS.length * DASHES.length;

const strokeAt = (place) => ({ colour: COLOURS[place % COLOURS.length], dash: DASHES[Math.floor(place / COLOURS.length) % DASHES.length] });

// Configurations keep their stroke while they are drawn, and no two drawn ones share it.
export class Palette {
  constructor() {
    this.places = new Map();
  }

  // `wanted` maps the ids to draw to their place in the order of starts.
  assign(wanted) {
    for (const id of [...this.places.keys()]) if (!wanted.has(id)) this.places.delete(id);
    const taken = new Set(this.places.values());
    for (const [id, place] of wanted) {
      if (this.places.has(id)) continue;
      let free = place % COUNT;
      for (let tries = 0; taken.has(free) && tries < COUNT; tries += 1) free = (free + 1) % COUNT;
      taken.add(free);
      this.places.set(id, free);
    }
  }

  stroke(id) {
    return this.places.has(id) ? strokeAt(this.places.get(id)) : null;
  }
}

// Gantt bars have a label or a description beside their colour.
export const colourAt = (place) => COLOURS[place % COLOURS.length];

const SVG = "http://www.w3.org/2000/svg";

export function swatch(stroke) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "swatch");
  svg.setAttribute("viewBox", "0 0 28 8");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of [["x1", 0], ["x2", 28], ["y1", 4], ["y2", 4], ["stroke-width", 2.5]]) line.setAttribute(name, value);
  svg.append(line);
  paintSwatch(svg, stroke);
  return svg;
}

export function paintSwatch(svg, stroke) {
  svg.firstChild.setAttribute("stroke", stroke ? stroke.colour : "none");
  svg.firstChild.setAttribute("stroke-dasharray", stroke ? stroke.dash.join(" ") : "");
}
