// The page: receives the coordinator's events (docs/page.md) and updates the parts that changed.
import { askToDrain, askToStop } from "./actions.js";
import { addCurves, drawCharts, setMarks } from "./charts.js";
import { addEvents, allEvents } from "./events.js";
import { count, duration, element, find, number, rate, setText } from "./format.js";
import { noteFailure, setDrain, showHosts } from "./hosts.js";
import { refuseLog, setRanks, startLog } from "./log.js";
import { showPhases } from "./phases.js";
import { showPlan, showQueue } from "./plan.js";

const AGAIN = 5000;  // milliseconds before a refused connection is retried

const TONES = {
  training: "good", completed: "good", starting: "quiet", waiting: "quiet", idle: "quiet", stopped: "quiet",
  stopping: "warn", restarting: "warn", failing: "bad", failed: "bad",
};
const ENDS = new Set(["completed", "stopped", "failed"]);

const state = { status: null, hosts: [], workers: [], plan: null, phases: null, queue: null };
const dirty = new Set();
let mayStop = false;

function announce(text) {
  setText(find("announcer"), text);
}

function notice(error, done) {
  const place = find("notice");
  place.hidden = !error && !done;
  place.dataset.tone = error ? "bad" : "good";
  setText(place, error || done);
}

function take(told) {
  if (told.whole) Object.keys(state).forEach((part) => dirty.add(part));
  if (told.events) takeEvents(told.events, told.whole === true);
  for (const part of Object.keys(state)) {
    if (told[part] === undefined) continue;
    state[part] = told[part];
    dirty.add(part);
  }
  if (told.curves) {
    addCurves(told.curves);
    dirty.add("curves");
  }
  if (!document.hidden) show();
}

function takeEvents(events, whole) {
  const fresh = addEvents(events, whole);
  setMarks(allEvents());
  dirty.add("curves");
  if (whole) return;
  for (const event of fresh) {
    if (event.kind === "failure" && event.severity === "error" && event.rank !== null) noteFailure(event.rank);
  }
  const worst = fresh.filter((event) => event.severity !== "note").at(-1);
  if (worst) announce(worst.text);
}

function show() {
  const has = (...parts) => parts.some((part) => dirty.has(part));
  if (has("status")) showStatus(state.status);
  if (has("plan", "status") && state.plan) showPlan(state.plan, state.status);
  if (has("hosts", "workers")) {
    showHosts(state.hosts, state.workers);
    setRanks(state.workers.length);
  }
  if (has("phases") && state.phases) showPhases(state.phases);
  if (has("queue") && state.queue) showQueue(state.queue);
  if (has("curves")) drawCharts();
  dirty.clear();
}

function shownName({ job_name: name, job_file: file }) {
  return name === file ? file.split("/").at(-1) || "job" : name;
}

function showStatus(status) {
  const label = find("state");
  if (label.textContent !== status.state && label.textContent !== "connecting") announce(`Job state: ${status.state}`);
  setText(label, status.state);
  label.dataset.tone = TONES[status.state] ?? "quiet";
  document.title = status.total_steps > 0
    ? `${status.state} ${Math.floor((100 * status.step) / status.total_steps)} % – pfc` : `${status.state} – pfc`;
  setText(find("job"), status.job_id ? `${shownName(status)} · ${status.job_id}` : "no job");
  find("job").title = status.job_file;
  const parts = [status.reason === status.state ? "" : status.reason, status.why_smaller,
    ...status.left_out.map((each) => `left out: ${each.host}${each.slot < 0 ? "" : `, slot ${each.slot}`} (${each.cause})`)];
  setText(find("reason"), parts.filter(Boolean).join(" · "));
  find("job-buttons").hidden = !(mayStop && status.job_id && !ENDS.has(status.state));
  find("stop").disabled = status.state === "stopping";
  const progress = find("progress");
  progress.max = Math.max(1, status.total_steps);
  progress.value = status.step;
  showFigures(status);
  setText(find("version"), `pfc ${status.version}${status.takeovers > 0 ? ` · taken over ${status.takeovers} time${status.takeovers === 1 ? "" : "s"}` : ""}`);
}

function showFigures(status) {
  const percent = status.total_steps > 0 ? `${Math.floor((100 * status.step) / status.total_steps)} %` : "";
  const figures = [
    ["Step", count(status.step), status.total_steps > 0 ? `of ${count(status.total_steps)} · ${percent}` : ""],
    ["Epoch", count(status.epoch), ""],
    ["Loss", number(status.loss), ""],
    ["Images/s", rate(status.samples_per_second), ""],
    ["Time left", status.remaining_seconds === null ? "–" : duration(status.remaining_seconds), ""],
    ["Workers", count(status.world_size), status.wanted_workers > status.world_size ? `of ${count(status.wanted_workers)}` : ""],
    ["Restarts", count(status.restarts), `${count(status.restarts_left)} left`],
  ];
  const list = find("figures");
  if (list.children.length === 0) {
    list.append(...figures.map(([name]) => element("div", "", element("dt", "", name),
      element("dd", "", element("span", "value"), element("span", "more")))));
  }
  figures.forEach(([, value, more], i) => {
    setText(list.children[i].querySelector(".value"), value);
    setText(list.children[i].querySelector(".more"), more);
  });
}

function setLink(live, text) {
  const link = find("link");
  link.dataset.live = live ? "yes" : "no";
  setText(link, text);
}

function connect() {
  const source = new EventSource(new URL("/events", location.origin));
  source.onopen = () => {
    setLink(true, "live");
    notice("", "");
  };
  source.onmessage = (message) => take(JSON.parse(message.data));
  source.onerror = () => {
    if (ENDS.has(state.status?.state)) {
      source.close();
      setLink(false, "the coordinator has ended");
      find("job-buttons").hidden = true;
      return;
    }
    setLink(false, "not connected");
    notice("The coordinator cannot be reached. The values shown may be old. The page reconnects by itself.", "");
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, AGAIN);
  };
}

async function askWhoIAm() {
  try {
    const reply = await fetch(new URL("/api/me", location.origin));
    return await reply.json();
  } catch {
    return { may_stop: false, may_read_logs: false };
  }
}

async function begin() {
  connect();
  const me = await askWhoIAm();
  mayStop = me.may_stop;
  if (me.may_read_logs) startLog(); else refuseLog();
  if (!mayStop) return;
  find("stop").addEventListener("click", () => askToStop(state.status.job_id, notice));
  setDrain((host) => askToDrain(state.status.job_id, host, notice));
  if (state.status) showStatus(state.status);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && state.status) show();
});
begin();
