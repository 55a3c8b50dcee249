// The job's configuration, and the jobs before and after it.
import { count, element, find, table, tableIn, time } from "./format.js";

const SHOWN = [
  ["network", "Network"], ["embedding_size", "Embedding"], ["num_classes", "Classes"], ["batch_size", "Batch size per worker"],
  ["sample_rate", "Sample rate"], ["precision", "Precision"], ["optimizer", "Optimizer"], ["lr", "Learning rate"],
  ["num_epoch", "Epochs"], ["save_every_steps", "Checkpoint every"], ["rec", "Data"], ["output", "Output"],
];

let job = {};
const fillKeys = tableIn(find("all-keys"), () =>
  table(["Key", "Value"], Object.entries(job).map(([key, value]) => [key, text(value)])));

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function showPlan(plan, status) {
  job = plan.job;
  const facts = SHOWN.filter(([key]) => job[key] !== undefined && job[key] !== null && job[key] !== "" &&
    !(key === "num_classes" && job[key] === 0) && !(key === "save_every_steps" && job[key] === 0))
    .map(([key, name]) => [name, key === "save_every_steps" ? `${count(job[key])} steps` : text(job[key])]);
  if (status?.total_steps > 0) facts.unshift(["Steps", count(status.total_steps)]);
  if (status?.world_size > 0 && job.batch_size) {
    const images = job.batch_size * status.world_size * (job.gradient_acc || 1);
    facts.unshift(["Workers", status.wanted_workers > status.world_size
      ? `${count(status.world_size)} of ${count(status.wanted_workers)}` : count(status.world_size)]);
    facts.splice(2, 0, ["Images per step", count(images)]);
  }
  if (status?.network) facts.push(["Network between hosts", status.network]);
  find("plan").replaceChildren(...facts.map(([name, value]) =>
    element("div", "", element("dt", "", name), element("dd", "", value))));
  if (facts.length === 0) find("plan").textContent = "No job is running.";
  find("notes").replaceChildren(...plan.notes.map((note) => element("li", "", note)));
  find("all-keys").hidden = Object.keys(job).length === 0;
  fillKeys();
}

export function showQueue({ waiting, ended }) {
  find("queue-card").hidden = waiting.length + ended.length === 0;
  const when = (row) => (row.state === "waiting" ? time(row.submitted_ms) : time(row.ended_ms));
  find("queue").replaceChildren(...table(["State", "Job", "Name", "Output", "When", "How"],
    [...waiting, ...ended].map((row) => {
      const state = element("span", "pill", row.state);
      state.dataset.tone = row.state === "failed" ? "bad" : row.state === "completed" ? "good" : "quiet";
      return [state, row.job_id, row.name, row.output, when(row), row.message];
    })).children);
}
