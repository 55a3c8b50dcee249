#!/usr/bin/env python3
"""Writes pfc.json, the dashboard of a job: change a panel here, run this, and commit both (docs/grafana.md).

  python3 deploy/grafana/dashboard.py [--runbooks URL]

--runbooks: the address at which your team reads docs/runbooks. Panels then link to its pages; without --runbooks they
only name the pages.
"""

import argparse
import json
import pathlib

from build import (DATASOURCE, INSTANCE, MOST, annotation, bars, by_worker, curves, heat_map, lines_of, of_run, place, stack, stat,
                   table, timeline, worst)

GPU = "rank {{rank}} on {{host}}, {{device}}"
UP = {0: ("lost", "red"), 1: ("up", "green")}
STATES = {"training": "green", "completed": "green", "failing": "red", "failed": "red"}


def job():
    return [
        stat("State", "pfc_job_state{$I} == 1", "The job's current state. If it waits, starts or restarts for more than a "
             "minute, hosts or workers are missing.", legend="{{state}}", options={"textMode": "name"}, steps=("orange",), runbook="job-failed",
             overrides=[{"matcher": {"id": "byName", "options": state},
                         "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]}
                        for state, colour in STATES.items()]),
        stat("Images a second", "job:pfc_samples:rate1m{$I}", "Images that all workers train, over the last minute. A "
             "straggler, a slow input or a restart causes a sudden fall: see the rows below.", defaults={"decimals": 0}),
        stat("Progress", "pfc_job_step{$I} / pfc_job_last_step{$I}", "Fraction of the job's steps that are done.", unit="percentunit"),
        stat("Time left", "pfc_job_remaining_seconds{$I}", "Time until the last step, at the mean speed so far. Restarts are "
             "part of this speed.", unit="s"),
        stat("Epoch", "pfc_job_epoch{$I}", "The current pass over the data, from 0."),
        stat("Workers missing", "pfc_job_workers_wanted{$I} - pfc_job_workers{$I}", "Workers that the job lacks, compared "
             "with all of its hosts and slots. Without them it is slower.", steps=("green", (1, "red")), runbook="host-lost"),
        stat("Restarts left", "pfc_job_restarts_left{$I}", "Failures that the job can still survive. At 0 the next failure "
             "ends it.", steps=("orange", (1, "green")), runbook="restarts"),
        stat("Age of checkpoint", "job:pfc_checkpoint_age_seconds{$I}", "Training time that a failure of all hosts would "
             "lose now. The alert PfcCheckpointTooOld fires at 2 h.", unit="s", steps=("green", (3600, "orange"), (7200, "red")),
             runbook="checkpoint-too-old"),
    ]


def training():
    return [
        curves("Throughput", {"all workers": "job:pfc_samples:rate1m{$I}"}, "Images that all workers train in a second. "
               "Fewer workers or a slow one lower it permanently; evaluations and checkpoints lower it for a moment.", runbook="no-progress"),
        curves("Loss", {"loss": "pfc_job_loss{$I}", "distillation loss": "pfc_job_distillation_loss{$I}",
                        "logits loss": "pfc_job_logits_loss{$I}"}, "Loss of the last "
               "step, mean of all workers, and with a teacher the distillation losses. A restart sets it back to the checkpoint. If it has a gap while steps continue, the loss is not finite.", defaults={}, runbook="loss-not-finite"),
        curves("Learning rate", {"learning rate": "pfc_job_learning_rate{$I}"}, "Learning rate of the last step. If it "
               "changes together with the loss, the schedule is the cause.", size=(8, 7)),
        curves("Gradient norm", {"norm": "pfc_job_gradient_norm{$I}"}, "Norm of the backbone's gradient before clipping, on "
               "a logarithmic axis. A rise to ten times the usual value precedes a diverging loss.", size=(8, 7), defaults={},
               custom={"scaleDistribution": {"type": "log", "log": 10}}),
        curves("Loss scale", {"scale": "pfc_job_loss_scale{$I}"}, "Only for jobs in fp16. Each step that overflows halves "
               "it. If it keeps falling, gradients are not finite.", size=(8, 7), defaults={},
               custom={"scaleDistribution": {"type": "log", "log": 2}, "lineInterpolation": "stepAfter"}, runbook="loss-not-finite"),
    ]


def time_of_a_step():
    duration = "pfc_worker_step_duration_seconds"
    return [
        stack("Phases", {"{{phase}}": "job:pfc_phase_seconds:rate1m{$I}"}, "Seconds that a worker spends in each phase per "
              "second, mean of all workers. Make the thickest layer faster: data_wait shows a slow input; all_gather, "
              "reduce_scatter and gradient_wait show a slow network or a straggler.", unit="s"),
        by_worker("Own time of a step", "pfc_worker_own_step_seconds", "Time of a step without the wait for other workers, median of the "
                  f"last 20 reports: the {MOST} slowest workers of the shown time, and the median of all. All others wait for a worker "
                  "far above the median.", unit="s", runbook="straggler"),
        curves("Step time", {"mean": "job:pfc_step_duration_seconds:mean1m{$I}",
                             "99 % are faster": "histogram_quantile(0.99, sum by (instance, job, le) "
                                                f"(rate({duration}_bucket{{$I}}[$__rate_interval])))"},
               "Step times of all workers. The second curve is computed from buckets, so it moves in jumps.", unit="s", size=(8, 8)),
        heat_map("Steps by their time", f"sum by (instance, job, le) (increase({duration}_bucket{{$I}}[$__rate_interval]))",
                 "Number of steps by duration. Two bands show two kinds of steps (with and without an evaluation or "
                 "checkpoint), or hosts of two speeds.", size=(8, 8)),
        by_worker("Busy", "worker:pfc_busy:ratio1m", "Fraction of its steps in which a worker computes or waits for its own "
                  "data, the busiest first. In a balanced job all are equal. With a straggler, it is near 100 % and the "
                  "others are far below.", unit="percentunit", size=(8, 8), runbook="straggler"),
    ]


def data():
    return [
        by_worker("Input wait", "worker:pfc_input_wait:ratio5m", "Fraction of its steps in which a worker waits for its own "
                  "images, the worst first. Above 10 %, give the loader more threads or put the data on faster disks.",
                  unit="percentunit", size=(10, 8), runbook="input-bound"),
        by_worker("Speed of loaders", "worker:pfc_loader_samples:rate5m", "Images per second that the slowest "
                  "loaders can deliver, and that a worker trains. A loader near the curve of a worker slows training.", function="bottomk", size=(10, 8),
                  more_queries={"trained by a worker": "avg without (rank, host) (worker:pfc_samples:rate1m{$I})"},
                  runbook="input-bound"),
        stat("Damaged images", "sum by (instance, job) (pfc_worker_skipped_images_total{$I})", "Images that could not be "
             "decoded and were replaced. A few are harmless; many mean a damaged data set.", size=(4, 4), steps=("green", (1, "orange"))),
        stat("Loader threads", "sum by (instance, job) (pfc_worker_loader_threads{$I})", "Threads of all workers that read "
             "and decode. Compare with the cores of the hosts.", size=(4, 4)),
    ]


def collectives():
    each = "{{communicator}} {{kind}}"
    seconds, sent = "job:pfc_collective_seconds:mean_rate1m{$I}", "job:pfc_collective_sent_bytes:rate1m{$I}"
    return [
        stack("Collective time", {each: seconds}, "Seconds that a worker spends in collectives per second, mean of all "
              "workers, with the wait for others. A slow network or a straggler raises it: see Own time of a step. 0 for "
              "NCCL.", unit="s"),
        stack("Collective traffic", {each: sent}, "Bytes a second that all workers send. Near the network's limit, send "
              "fewer bytes (a lower sample rate, bf16) or use a faster network.", unit="Bps"),
        curves("Speed inside collectives", {each: f"{sent} / on (instance, job, communicator, kind) ({seconds} > 0) "
                                                  "/ on (instance, job) group_left pfc_job_workers{$I}"},
               "Bytes per second that a worker sends inside a collective. If it is far below the speed that pfcctl check "
               "measured, messages are small, or workers wait for one of them.", unit="Bps"),
        curves("Collectives", {each: "sum by (instance, job, communicator, kind) (rate(pfc_worker_collectives_total{$I}"
                                     "[$__rate_interval]))"},
               "Collectives that all workers begin in a second. Their number per step is constant in a job."),
    ]


def memory():
    return [
        by_worker("Host memory by worker", "pfc_worker_resident_memory_bytes", "Resident memory of the process, the largest "
                  "first. It should be flat after the first steps. If it keeps growing, the kernel will kill the process.", over="max", unit="bytes"),
        by_worker("GPU memory by worker", "worker:pfc_gpu_memory_used:ratio", "Fraction in use by any process, the fullest "
                  "first. Above 97 %, the next larger allocation may fail: use a smaller batch.", over="max", legend=GPU, unit="percentunit",
                  defaults={"min": 0, "max": 1}, runbook="gpu-memory-nearly-full"),
    ]


def hosts():
    slowest = f"topk(20, max by (rank, host) ({of_run('pfc_worker_own_step_seconds{$I}')}))"

    def now(query):  # a column of the table, by rank
        return f"max by (rank, host) ({query}) and on (rank, host) {slowest}"

    return [
        timeline("Hosts", {"{{host}}": worst("pfc_host_up", "bottomk", count=16)}, "Whether the agent is registered, for the "
                 "16 hosts that were away most. A gap at the right end is a removed host.", states=UP, runbook="host-lost"),
        timeline("Workers", {"rank {{rank}} on {{host}}": worst("pfc_worker_up", "bottomk", count=16)}, "Whether the worker "
                 "runs and has joined, for the 16 workers that were away most. All are red during a restart. Look at a "
                 "worker that stays red.",
                 states=UP, runbook="restarts"),
        curves("Workers and slots", {"workers": "pfc_job_workers{$I}", "workers wanted": "pfc_job_workers_wanted{$I}",
                                     "slots of registered hosts": "sum by (instance, job) (pfc_host_slots{$I} * pfc_host_up{$I})",
                                     "idle slots": "pfc_job_slots_idle{$I}", "left out": "pfc_job_slots_left_out{$I}",
                                     "slow workers": "pfc_job_stragglers{$I}"},
               "Idle slots are spares. Slots that failed too often are left out. Slow workers make the others wait.", size=(8, 8),
               custom={"lineInterpolation": "stepAfter"}, runbook="straggler"),
        curves("Heartbeats of hosts", {"{{host}}": worst("host:pfc_heartbeat_age_seconds", over="max")}, "Seconds since the last "
               f"heartbeat of an agent, for the {MOST} hosts with the longest silence. A peak above a few seconds means that the "
               "network or the machine stalled; a rising line means that the host is gone.", unit="s", size=(8, 8), runbook="host-lost"),
        by_worker("Silence of workers", "worker:pfc_progress_age_seconds", "Seconds since a worker's step, phase or "
                  "collective changed, the longest first. If one curve rises, that worker is stuck; if all rise, all wait "
                  "for one.", over="max", unit="s", size=(8, 8), runbook="no-progress"),
        by_worker("Processor time by worker", "worker:pfc_cpu_seconds:rate1m", "Cores that each worker uses, the fewest "
                  "first. On CPUs, a worker far below the others shares its cores or is throttled.", function="bottomk", size=(8, 9)),
        table("Slowest workers now", {
            "step": now(of_run("pfc_worker_step{$I}")),
            "own time of a step": slowest,
            "slow": now(of_run("pfc_worker_slow{$I}")),
            "busy": now(of_run("worker:pfc_busy:ratio1m{$I}")),
            "input wait": now(of_run("worker:pfc_input_wait:ratio5m{$I}")),
            "memory": now(of_run("pfc_worker_resident_memory_bytes{$I}")),
            "last heard": now(of_run("time() - pfc_worker_last_heartbeat_timestamp_seconds{$I}"))},
            "One row per worker, at most 20. A worker that was last heard of many seconds ago is lost or hangs.", order="own time of a step",
            units={"own time of a step": "s", "busy": "percentunit", "input wait": "percentunit", "memory": "bytes", "last heard": "s"},
            size=(16, 9), runbook="straggler"),
    ]


def failures():
    return [
        timeline("Alerts", {"{{alertname}}": "max by (alertname) (ALERTS{$I, alertstate=\"firing\"})"}, "Firing alerts of "
                 "this coordinator, from deploy/prometheus. docs/runbooks has a page for each. Empty if none fires, or if "
                 "Prometheus lacks alerts.yml.",
                 states={1: ("fires", "red")}, size=(12, 7), whole=True),
        bars("Restarts by cause", {"{{cause}}": "increase(pfc_job_restarts_total{$I}[$__range])"}, "Restarts in the shown "
             "time. crash: a worker crashed; silence: a worker hung; host_lost: a machine or its agent failed; "
             "connection_lost: the network failed.", size=(6, 7),
             runbook="restarts"),
        curves("Generation", {"generation": "pfc_job_generation{$I}", "restarts left": "pfc_job_restarts_left{$I}"},
               "Each restart starts a new generation. A new checkpoint gives one restart back if none was used or given back in the 10 min before.",
               size=(6, 7), custom={"lineInterpolation": "stepAfter"}, runbook="restarts"),
        stat("Images seen", "pfc_job_images_seen{$I}", "Images that the model's state has seen.", size=(12, 4), unit="short"),
        stat("Images lost", "pfc_job_images_lost{$I}", "Images whose updates were lost, because a generation "
             "began from an older state. If there are many, write checkpoints more often.", size=(12, 4), unit="short", steps=("green", (1, "orange"))),
    ]


def checkpoints():
    written = "increase(pfc_job_checkpoints_total{$I}[$__range])"
    return [
        curves("Age of the newest checkpoint", {"age": "job:pfc_checkpoint_age_seconds{$I}"}, "The curve falls at each "
               "checkpoint. Growing peaks mean slower steps or slower storage.", unit="s", size=(8, 8), runbook="checkpoint-too-old"),
        curves("Time of a checkpoint", {"newest": "pfc_job_last_checkpoint_duration_seconds{$I}"}, "Time from the beginning "
               "of a checkpoint to its final name. Training continues meanwhile, except for the time in the next panel. "
               "Growth means slower storage.", unit="s", size=(8, 8)),
        curves("Training held by checkpoints", {"held": "rate(pfc_job_checkpoint_held_seconds_total{$I}[$__rate_interval])"},
               "Fraction of the time in which training waits for checkpoints. Above 5 %, save less often or to faster "
               "storage.", unit="percentunit", size=(8, 8)),
        stat("Checkpoints", written, "Checkpoints published in the shown time.", size=(6, 4), defaults={"decimals": 0}),
        stat("Mean time", "increase(pfc_job_checkpoint_seconds_total{$I}[$__range]) / (" + written + " > 0)",
             "Mean time of a checkpoint in the shown time.", size=(6, 4), unit="s"),
        stat("Size of the newest", "pfc_job_last_checkpoint_size_bytes{$I}", "Size of all files of the newest checkpoint. "
             "The disk needs room for one more checkpoint than are kept.", size=(6, 4), unit="bytes"),
        stat("Written", "increase(pfc_job_checkpoint_bytes_total{$I}[$__range])", "Bytes of checkpoints in the shown time.", size=(6, 4),
             unit="bytes"),
    ]


def gpus():
    return [
        by_worker("GPU utilisation", "pfc_worker_gpu_utilization_ratio", "Fraction of the time in which the GPU computes, "
                  "the lowest first. If all are low, the input or the network is slow. If one is low, its own data or its "
                  "GPU is slow.", function="bottomk", legend=GPU,
                  unit="percentunit", defaults={"min": 0, "max": 1}),
        by_worker("GPU temperature", "pfc_worker_gpu_temperature_celsius", "Temperatures, the hottest first. Near 85 degrees "
                  "most GPUs lower their clock: check fans and air flow.", legend=GPU, unit="celsius", runbook="gpu-throttled"),
        by_worker("GPU power", "pfc_worker_gpu_power_watts", "Power, the lowest first. A GPU far below the others with the "
                  "same work is throttled or waits.", function="bottomk", legend=GPU, unit="watt", runbook="gpu-throttled"),
        timeline("GPU throttled", {GPU: worst("pfc_worker_gpu_throttled", count=16)}, "Whether heat, power or hardware lower "
                 "the clock, for the 16 GPUs with the most such time. Such a GPU makes its rank a straggler.",
                 states={0: ("full clock", "green"), 1: ("throttled", "red")}, runbook="gpu-throttled"),
    ]


def service():
    def of_each_job(query):
        return f"max by (job_id) (max_over_time(({query})[$__range:$__interval]))"

    info = "* on (instance, job) group_left (job_id) pfc_job_info{$I}"
    return [
        table("Jobs, one after another", {
            "begun": of_each_job(f"1000 * pfc_job_start_timestamp_seconds{{$I}} {info}"),
            "last seen": of_each_job("1000 * timestamp(pfc_job_info{$I})"),
            "step": of_each_job(f"pfc_job_step{{$I}} {info}"),
            "generation": of_each_job(f"pfc_job_generation{{$I}} {info}")},
            "Jobs of this coordinator in the shown time. Click on a job to show it alone, like the field Job above.", order="begun",
            units={"begun": "dateTimeAsIso", "last seen": "dateTimeAsIso"}, size=(12, 8),
            links={"job_id": {"title": "This job alone", "url": "/d/pfc-job-overview?${datasource:queryparam}&${instance:queryparam}"
                                                                "&var-run=${__value.raw}&${__url_time_range}"}}),
        curves("Queue", {"jobs that wait": "pfc_jobs_waiting{$I}"}, "Queue of a service. If it grows while no job trains, it "
               "waits for a host: pfcctl queue names it.", size=(6, 8), custom={"lineInterpolation": "stepAfter"}, whole=True),
        bars("Jobs ended", {"{{how}}": "increase(pfc_jobs_total{$I}[$__range])"}, "Jobs of a service that ended in the shown "
             "time. Refused jobs had a wrong job file.", whole=True, runbook="job-failed"),
        curves("Coordinator's processor time", {"cores": "rate(process_cpu_seconds_total{$I}[$__rate_interval])"}, "Cores "
               "that it uses. Near 1 the coordinator answers late: look for clients that send too many requests.", size=(6, 8), whole=True, runbook="coordinator-down"),
        curves("Coordinator's memory", {"resident": "process_resident_memory_bytes{$I}"}, "Resident memory. It does not grow "
               "with the number of jobs.", unit="bytes", size=(6, 8), whole=True),
        bars("Coordinator's faults", {
            "takeovers": "pfc_coordinator_takeovers_total{$I}", "journal not written": "pfc_coordinator_journal_failures_total{$I}",
            "output lines dropped": "pfc_coordinator_dropped_output_lines_total{$I}",
            "audit lines left out": "pfc_coordinator_audit_lines_left_out_total{$I}"},
            "Counts since the coordinator started. Takeovers: an earlier coordinator ended unexpectedly. Journal: its disk is "
             "full or broken. Output: the coordinator's output is not read, or its disk is full.", whole=True,
            runbook="coordinator-down"),
        bars("Refused", {"{{reason}}": "increase(pfc_coordinator_refusals_total{$I}[$__range])"}, "Refused calls, pages and "
             "connections in the shown time, because of wrong tokens and certificates. The audit log names the caller.", whole=True),
    ]


def annotations():
    window = "[$__rate_interval]"
    states = "waiting|starting|restarting|stopping|failing|failed|stopped"
    return [
        annotation("Failures", f"increase(pfc_job_restarts_total{{$I}}{window}) > 0", "red", "restart: {{cause}}",
                   "A failure ended a generation; the job continues from its newest state.", labels="cause"),
        annotation("States", f"max_over_time(pfc_job_state{{$I, state=~\"{states}\"}}{window})", "orange",
                   "{{state}}", "The job was in this state.", labels="state"),
        annotation("Hosts lost", f"(1 - min_over_time(pfc_host_up{{$I}}{window}) > 0) unless on (instance, job) "
                                 "pfc_job_state{$I, state=~\"idle|waiting\"} == 1", "dark-red", "host {{host}} lost",
                   "Its agent is not registered.", labels="host"),
        annotation("Alerts", f"max by (alertname) (max_over_time(ALERTS{{$I, alertstate=\"firing\"}}{window}))", "purple", "{{alertname}}",
                   "docs/runbooks has a page for this alert.", labels="alertname", shown=False),
        annotation("Jobs begin", "1000 * pfc_job_start_timestamp_seconds{$I} * on (instance, job) group_left (job_id) pfc_job_info{$I}",
                   "blue", "job {{job_id}} begins", "", labels="job_id", value_is_time=True),
        annotation("Checkpoints", "1000 * pfc_job_last_checkpoint_timestamp_seconds{$I}", "green", "checkpoint", "", value_is_time=True,
                   shown=False),
    ]


def variable(name, label, values, **more):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "definition": values,
            "query": {"query": values, "refId": f"variable-{name}"}, "refresh": 2, "sort": 1, **more}


def dashboard(runbooks=None):
    rows = {"Job": job(), "Training": training(), "Where the time goes": time_of_a_step(), "Input": data(),
            "Collectives": collectives(), "Memory": memory(), "Hosts and workers": hosts(), "Failures": failures(),
            "Checkpoints": checkpoints(), "-GPUs": gpus(), "-Jobs and coordinator": service()}
    return {
        "uid": "pfc-job-overview", "title": "pfc: a job", "tags": ["pfc"], "editable": True, "graphTooltip": 1, "schemaVersion": 39,
        "description": "Generated by deploy/grafana/dashboard.py: change it there. docs/grafana.md",
        "refresh": "15s", "time": {"from": "now-1h", "to": "now"}, "annotations": {"list": annotations()},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
            variable("instance", "Coordinator", "label_values(pfc_build_info, instance)"),
            variable("run", "Job", f"label_values(pfc_job_info{{{INSTANCE}}}, job_id)", includeAll=True, multi=True, allValue=".*",
                     current={"text": ["All"], "value": ["$__all"]})]},
        "panels": place(rows, runbooks)}


def text(runbooks=None):
    return lines_of(dashboard(runbooks)) + "\n"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runbooks", metavar="URL")
    (pathlib.Path(__file__).resolve().parent / "pfc.json").write_text(text(options.parse_args().runbooks))
