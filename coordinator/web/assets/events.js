// The list of events, newest first.
import { count, element, find, setText, timeElement } from "./format.js";

const MOST = 200;
const NAMES = {
  host: "host", failure: "failure", generation: "generation", checkpoint: "checkpoint", job: "job",
  takeover: "takeover", straggler: "slow", request: "request",
};

let events = [];

/** Adds the new events and returns them. */
export function addEvents(told, whole) {
  if (whole) {
    events = [];
    find("events").replaceChildren();
  }
  const newest = events.at(-1)?.number ?? 0;
  const fresh = told.filter((event) => event.number > newest);
  events = [...events, ...fresh].slice(-MOST);
  const list = find("events");
  for (const event of fresh) list.prepend(row(event));
  while (list.children.length > MOST) list.lastChild.remove();
  const failures = events.filter((event) => event.severity === "error").length;
  setText(find("events-reading"), failures === 0 ? "" : `${count(failures)} failure${failures === 1 ? "" : "s"}`);
  return fresh;
}

export function allEvents() {
  return events;
}

function row(event) {
  const made = element("li", "event", timeElement(event.ms),
    element("span", "kind", NAMES[event.kind] ?? event.kind), element("span", "event-text", event.text));
  made.dataset.severity = event.severity;
  return made;
}
