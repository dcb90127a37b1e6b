// changes lists the leaves that differ between two JSON values, by path. Lists are
// compared by position, except lists of objects that all have a name.
export function changes(from, to, path = "", found = []) {
  if (same(from, to)) return found;
  const a = members(from), b = members(to);
  if (!a || !b || a.list !== b.list) {
    found.push({ path: path || "(object)", from: short(from), to: short(to) });
    return found;
  }
  for (const key of new Set([...a.map.keys(), ...b.map.keys()])) {
    changes(a.map.get(key), b.map.get(key), path + (a.list ? `[${key}]` : (path ? "." : "") + key), found);
  }
  return found;
}

const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

function members(value) {
  if (Array.isArray(value)) {
    const named = value.length > 0 && value.every((v) => v && typeof v.name === "string") && new Set(value.map((v) => v.name)).size === value.length;
    return { list: true, map: new Map(value.map((v, i) => [named ? v.name : i, v])) };
  }
  if (value && typeof value === "object") return { list: false, map: new Map(Object.entries(value)) };
  return null;
}

function short(value) {
  if (value === undefined) return undefined;
  const text = JSON.stringify(value);
  return text.length > 400 ? `${text.slice(0, 400)}…` : text;
}

// printed is an event as indented JSON.
export const printed = (event) => JSON.stringify(event, null, 2);
