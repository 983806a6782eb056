// Colours of a heat map: centred on the score of the whole image, red below and blue above it.

// Ends and middle of the palette, as red, green and blue. Red and blue differ for every common form of colour blindness.
const STOPS = [[103, 0, 31], [214, 96, 77], [247, 247, 247], [67, 147, 195], [5, 48, 97]];
const OPACITY = 0.9;
// The end of the palette stands for a change of at least this share of the score, so that small effects are pale.
const LEAST = 0.05;
// Changes below this share are rounding.
const FLAT = 1e-4;

export class Scale {
  // `centre` is the score of the whole image, `values` those of the places, null where none is computed.
  constructor(centre, values) {
    this.centre = centre;
    this.largest = 0;
    for (const value of values) if (value !== null) this.largest = Math.max(this.largest, Math.abs(value - centre));
    const score = Math.max(Math.abs(centre), 1e-30);
    this.isFlat = this.largest <= FLAT * score;
    this.half = Math.max(LEAST * score, this.isFlat ? 0 : this.largest);
  }

  get low() { return this.centre - this.half; }

  get high() { return this.centre + this.half; }

  // Red, green, blue from 0 to 255, and opacity from 0 to 1: none where nothing changes.
  colour(value) {
    const place = Math.max(-1, Math.min(1, (value - this.centre) / this.half));
    const at = (place + 1) * 2;
    const index = Math.min(Math.floor(at), STOPS.length - 2);
    const mixed = STOPS[index].map((from, channel) => from + (STOPS[index + 1][channel] - from) * (at - index));
    return [...mixed.map(Math.round), OPACITY * Math.abs(place)];
  }
}

// Fill an incomplete map for display: each place gets the value of the nearest place of the coarsest lattice that has it.
export function filled(values, rows, columns) {
  const result = values.slice();
  let most = 1;
  while (most < Math.max(rows, columns)) most *= 2;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const place = row * columns + column;
      for (let step = 2; result[place] === null && step <= most; step *= 2) {
        const nearest = (at, extent) => Math.min(Math.round(at / step), Math.floor((extent - 1) / step)) * step;
        result[place] = values[nearest(row, rows) * columns + nearest(column, columns)];
      }
    }
  }
  return result;
}
