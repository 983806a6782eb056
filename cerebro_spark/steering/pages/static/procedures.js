// Procedures of a launch, and the settings that each of them has.

const EACH = ["num_epochs", "Epochs of each configuration."];
const MOST = ["max_epochs", "Epochs of the configurations that reach the end."];

export const PROCEDURES = {
  grid: { title: "Grid search", hint: "Trains all combinations of the lists of values.", epochs: EACH, settings: [] },
  random: { title: "Random search", hint: "Draws configurations at random.", epochs: EACH, settings: ["num_configurations"] },
  halving: { title: "Successive halving", hint: "Trains all for a few epochs, and the better ones on.", epochs: MOST, settings: ["num_configurations", "eta"] },
  hyperband: { title: "Hyperband", hint: "Several halvings, from many short to a few long trainings.", epochs: MOST, settings: ["eta"] },
  asha: { title: "ASHA", hint: "Halving that never waits: workers are always busy.", epochs: MOST, settings: ["max_configurations", "eta"] },
  pbt: { title: "Population based training", hint: "Replaces the worst by changed copies of the best.", epochs: EACH, settings: ["population"] },
  evolution: { title: "Aging evolution", hint: "Changes the best of the youngest configurations.", epochs: EACH, settings: ["population", "num_configurations"] },
};

// The field of each setting that has not its name.
const FIELDS = { max_configurations: "num_configurations" };
const LEAST = { population: 2, eta: 2 };

export const fieldsOf = (procedure) => PROCEDURES[procedure].settings.map((name) => FIELDS[name] ?? name);

// Read a whole number of at least `least`; throws what is wrong.
export function whole(name, text, least = 1) {
  const value = Number(text);
  if (text.trim() === "" || !Number.isInteger(value) || value < least) throw new Error(`${name} must be a whole number of at least ${least}, got ${text.trim() || "nothing"}.`);
  return value;
}

// The settings of a procedure from the texts of the fields. `fail` gets the field and the message of each error.
export function settings(procedure, texts, fail) {
  const { epochs, settings: names } = PROCEDURES[procedure];
  const read = {};
  const attempt = (field, name, call) => {
    try {
      read[name] = call();
    } catch (error) {
      fail(field, error.message);
    }
  };
  attempt("epochs", epochs[0], () => whole("epochs", texts.epochs));
  for (const name of names) {
    const field = FIELDS[name] ?? name;
    attempt(field, name, () => whole(name, texts[field], LEAST[name]));
  }
  attempt("seed", "seed", () => whole("seed", texts.seed, 0));
  if (texts.metric.trim()) read.metric = texts.metric.trim();
  if (texts.test_fraction !== undefined) {
    attempt("test_fraction", "test_fraction", () => {
      const share = Number(texts.test_fraction);
      if (texts.test_fraction.trim() === "" || !(share >= 0 && share < 1)) throw new Error("test_fraction must be a number from 0 to below 1, such as 0.2.");
      return share;
    });
  }
  return read;
}
