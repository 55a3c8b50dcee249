// Formats numbers and times, and makes elements. Text from the cluster is never set as HTML.

/** Makes an element with a class and children (texts or elements). */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) =>
    child instanceof Node ? child : String(child)));
  return made;
}

export function find(id) {
  return document.getElementById(id);
}

/** Sets the text only if it differs, so that screen readers and the layout are not disturbed. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return whole.format(value);
}

/** Formats with at least three significant digits: "0.00123", "12.3", "8,912". */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value);
  if (size >= 100) return value.toFixed(1);
  if (size >= 10) return value.toFixed(2);
  if (size >= 0.1 || size === 0) return value.toFixed(3);
  return value.toPrecision(3);
}

/** Formats images per second with three significant digits. */
export function rate(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value >= 100 || value === 0 ? whole.format(value) : value.toPrecision(3);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function seconds(value) {
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`;
  return `${value.toPrecision(3)} s`;
}

/** "45 s", "12 min", "3 h 20 min", "2 d 4 h" */
export function duration(value) {
  const total = Math.max(0, Math.round(value));
  if (total < 120) return `${total} s`;
  const minutes = Math.round(total / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  const hours = Math.round(total / 3600);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Formats the time of day, with the date if it is not today. */
export function time(ms) {
  const date = new Date(ms);
  const text = clock.format(date);
  return date.toDateString() === new Date().toDateString() ? text : `${day.format(date)} ${text}`;
}

export function timeElement(ms) {
  const made = element("time", "", time(ms));
  made.dateTime = new Date(ms).toISOString();
  return made;
}

/** Makes a table of texts, elements and numbers; numbers are right-aligned. */
export function table(heads, rows) {
  const cell = (tag, value) => {
    const made = element(tag, typeof value === "number" ? "number" : "", value);
    if (tag === "th") made.scope = "col";
    return made;
  };
  return element("table", "",
    element("thead", "", element("tr", "", ...heads.map((head) => cell("th", head)))),
    element("tbody", "", ...rows.map((row) => element("tr", "", ...row.map((value) => cell("td", value))))));
}

/** Fills a <details> with a table, only while it is open. */
export function tableIn(details, make) {
  const fill = () => {
    if (!details.open) return;
    const old = details.querySelector(".scroll");
    const made = element("div", "scroll", make());
    if (old) {
      const left = old.scrollLeft, top = old.scrollTop;
      old.replaceWith(made);
      made.scrollTo(left, top);
    } else {
      details.append(made);
    }
  };
  details.addEventListener("toggle", fill);
  return fill;
}
