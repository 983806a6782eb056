// Numbers, durations and params as text.

// JSON has no word for these, so documents have strings.
const NOT_FINITE = { nan: NaN, NaN: NaN, inf: Infinity, "-inf": -Infinity, Infinity: Infinity, "-Infinity": -Infinity };

export const toNumber = (value) => (typeof value === "number" ? value : NOT_FINITE[value] ?? NaN);

export function number(value) {
  if (value === null || value === undefined) return "";
  const parsed = toNumber(value);
  if (!Number.isFinite(parsed)) return typeof value === "string" ? value : String(value);
  if (Number.isInteger(parsed) && Math.abs(parsed) < 1e6) return String(parsed);
  const size = Math.abs(parsed);
  const rounded = Number(parsed.toPrecision(4));
  return size >= 1e6 || size < 1e-4 ? rounded.toExponential() : String(rounded);
}

export function param(value) {
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

// A setting: the members of an object are named, and those without a value are left out.
export function setting(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "object" || Array.isArray(value)) return param(value);
  const members = Object.entries(value).filter(([, member]) => member !== null && member !== "");
  const isGroup = (member) => typeof member === "object" && !Array.isArray(member);
  return members.map(([name, member]) => (isGroup(member) ? `${name} (${setting(member)})` : `${name}: ${setting(member)}`)).join(", ") || "–";
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
}

export function time(value) {
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  return value && !Number.isNaN(date.getTime()) ? date.toLocaleString() : "";
}

// Text, its own data type or an error; the type is that of the value that the field had before.
export function parsed(text, before) {
  const trimmed = text.trim();
  if (typeof before === "string") return text;
  if (typeof before === "number") {
    if (trimmed === "" || !Number.isFinite(Number(trimmed))) throw new Error("must be a number such as 0.01");
    return Number(trimmed);
  }
  try {
    return JSON.parse(trimmed);
  } catch {
    throw new Error('must be JSON such as true, 0.01, "text" or [64, 32]');
  }
}
