// Sizes as explanations write them ("80Gi", "1536Mi", "2T") as numbers, for bars.

const FACTORS = {
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
  k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, m: 1e-3, "": 1,
};

/** Bytes of a quantity; 0 for what is none. */
export function bytesOf(quantity) {
  const found = /^([0-9.]+)([A-Za-z]*)$/.exec(quantity ?? "");
  return found && found[2] in FACTORS ? Number(found[1]) * FACTORS[found[2]] : 0;
}

/** ["100Gi", "100Gi", "60Gi"] → "2×100Gi, 60Gi" */
export function amounts(quantities, most = 12) {
  const counted = new Map();
  for (const each of quantities) counted.set(each, (counted.get(each) ?? 0) + 1);
  const told = [...counted].slice(0, most).map(([each, number]) => (number > 1 ? `${number}×${each}` : each));
  const left = counted.size - told.length;
  return left > 0 ? `${told.join(", ")} and ${left} more ${left === 1 ? "size" : "sizes"}` : told.join(", ");
}
