// Sizes, shares and times as people read them.

// As `tonnage top` writes them (terminal/lines_view.py): the same number is the same text everywhere.

const UNITS = [" bytes", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** 1610612736 → "1.5Gi": as Kubernetes writes it, about three digits. */
export function bytes(amount) {
  if (amount === null || amount === undefined) return "unknown";
  if (!amount) return "0";
  if (amount === 1) return "1 byte";
  let worth = Math.abs(amount);
  let unit = 0;
  while (worth >= 1024 && unit < UNITS.length - 1) {
    worth /= 1024;
    unit += 1;
  }
  const digits = worth >= 100 || Number.isInteger(worth) ? 0 : worth >= 10 ? 1 : 2;
  // Half a Ki less than a round number must not be shown as the round number of the next unit: digits are cut, not rounded.
  const factor = 10 ** digits;
  const shown = Math.floor(worth * factor) / factor;
  return `${amount < 0 ? "-" : ""}${shown}${UNITS[unit]}`;
}

/** 0.427 → "42 %"; null is "unknown". Never 100 % before it is. */
export function percent(share) {
  // 0.29 * 100 is a little less than 29 in binary fractions.
  return share === null || share === undefined ? "unknown" : `${Math.floor(share * 100 + 1e-9)} %`;
}

let now = () => Date.now();

/** Whose time counts: a replay's while it is shown, a function that gives milliseconds; without one this machine's. */
export function tellTimeBy(clock = () => Date.now()) {
  now = clock;
}

/** How long ago an instant (RFC 3339) was: "12 s", "4 min", "3 h", "2 d"; "" for none. */
export function ago(instant, at = now()) {
  if (!instant) return "";
  const seconds = Math.max(0, Math.round((at - Date.parse(instant)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** An instant on this machine's clock, with the day when it is not today; "" for none. */
export function clockTime(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  const time = at.toLocaleTimeString();
  return at.toDateString() === new Date(now()).toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/** count(1, "node") → "1 node", count(2, "node") → "2 nodes". */
export function count(number, word, words = `${word}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? word : words}`;
}
