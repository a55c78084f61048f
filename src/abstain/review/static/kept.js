// What a browser keeps for a person, where it keeps anything: some forbid it.

const here = new Map();

export function recall(name) {
  try { return localStorage.getItem(name); } catch { return here.get(name) ?? null; }
}

export function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { here.set(name, value); }
}
