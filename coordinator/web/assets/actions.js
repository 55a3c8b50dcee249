// Stop and drain, for admins. Each is confirmed first.
import { find } from "./format.js";

let confirmed = null;

/** Asks in a dialog; calls `yes` on confirmation. */
function confirm(title, text, label, yes) {
  find("dialog-title").textContent = title;
  find("dialog-text").textContent = text;
  find("dialog-yes").textContent = label;
  confirmed = yes;
  find("dialog").showModal();
  find("dialog-no").focus();
}

find("dialog-no").addEventListener("click", () => find("dialog").close());
find("dialog-yes").addEventListener("click", () => {
  find("dialog").close();
  confirmed?.();
});

async function post(path, body, tell) {
  try {
    const reply = await fetch(new URL(path, location.origin), {
      method: "POST", headers: { "Content-Type": "application/json", "X-Pfc-Request": "1" }, body: JSON.stringify(body),
    });
    if (reply.ok) return tell("", "requested");
    const told = (await reply.text()).trim();
    let error = told;
    try {
      error = JSON.parse(told).error;
    } catch {
      // Plain text.
    }
    tell(error || `the coordinator replied with HTTP status ${reply.status}`, "");
  } catch {
    tell("the coordinator cannot be reached", "");
  }
}

/** `tell(error, text)` shows an error, or else the text about what was done. */
export function askToStop(job, tell) {
  confirm("Stop this job?", "The workers write a checkpoint and end. The job can continue later with \"resume\": true.",
    "Stop the job", () => post("/api/stop", { job }, (error, done) => tell(error, done && "The stop was requested.")));
}

export function askToDrain(job, host, tell) {
  confirm(`Drain host ${host}?`, "After a checkpoint the job continues without this host if --min-workers allows it. Otherwise the job ends.",
    "Drain the host", () => post("/api/drain", { job, host }, (error, done) => tell(error, done && `Host ${host} is being drained.`)));
}
