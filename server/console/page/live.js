// What the server does, since this page was opened, up to 15 minutes: the difference of two scrapes of /metrics a point.

import * as api from "./api.js";
import {Chart} from "./chart.js";
import {el, replace} from "./dom.js";
import {by, parse, quantile, sum} from "./exposition.js";
import {bytes, count, seconds} from "./numbers.js";

const everyMs = 2000, spanMs = 15 * 60 * 1000;

// Work, not what this page and probes ask for.
const isWork = ({op}) => !["health", "metrics", "metadata", "console", "none"].includes(op);

const stages = ["decode", "queue", "compute", "encode"];

const perSecond = (before, after, elapsed, name, fits) => (sum(after, name, fits) - sum(before, name, fits)) / elapsed;

function stageMean(before, after, stage) {
  const fits = (labels) => labels.stage === stage && isWork(labels);
  const total = sum(after, "tensord_stage_duration_seconds_sum", fits) - sum(before, "tensord_stage_duration_seconds_sum", fits);
  const n = sum(after, "tensord_stage_duration_seconds_count", fits) - sum(before, "tensord_stage_duration_seconds_count", fits);
  return n > 0 ? total / n : 0;
}

// Each chart: title, lines, format, and the values between two scrapes `elapsed` seconds apart.
const charts = [
  ["Requests", ["answered", "refused or failed"], (n) => count(n, "/s"), (before, after, elapsed) => [
    perSecond(before, after, elapsed, "tensord_requests_total", (labels) => isWork(labels) && labels.code < "400"),
    perSecond(before, after, elapsed, "tensord_requests_total", (labels) => isWork(labels) && labels.code >= "400")]],
  ["Latency", ["half of all", "99 of 100"], seconds, (before, after) => [0.5, 0.99].map((part) => quantile(before, after, "tensord_request_duration_seconds", part, isWork) ?? 0)],
  ["Stages, mean", stages, seconds, (before, after) => stages.map((stage) => stageMean(before, after, stage))],
  ["Memory", ["in use", "the process"], bytes, (_, after) => [sum(after, "tensord_memory_bytes"), sum(after, "process_resident_memory_bytes")]],
  ["Queue", ["jobs waiting", "requests in flight"], (n) => count(n), (_, after) => [sum(after, "tensord_queue_jobs"), sum(after, "tensord_requests_in_flight")]],
  ["Bodies", ["received", "sent"], (n) => `${bytes(n)}/s`, (before, after, elapsed) => ["tensord_request_bytes_total", "tensord_reply_bytes_total"].map((name) => perSecond(before, after, elapsed, name))],
];

function rates(before, after, name, label, elapsed, fits) {
  const first = by(before, name, label, fits), last = by(after, name, label, fits);
  return Object.entries(last).map(([key, value]) => [key, (value - (first[key] ?? 0)) / elapsed]).filter(([, rate]) => rate > 0).sort((a, b) => b[1] - a[1]).slice(0, 8);
}

function ranking(title, heads, lines) {
  return el("section", {class: "ranking"}, el("h3", {}, title), lines.length
    ? el("table", {class: "listing"}, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", {scope: "col"}, head)))),
      el("tbody", {}, ...lines.map(([name, rate]) => el("tr", {}, el("td", {class: "text"}, name), el("td", {}, count(rate, "/s"))))))
    : el("p", {class: "empty"}, "none"));
}

class LiveView {
  constructor(node) {
    this.charts = charts.map(([title, names, format]) => new Chart(title, names, format, spanMs));
    this.rankings = el("div", {class: "rankings"});
    replace(node, el("p", {class: "help"}, "Since this page was opened, up to 15 minutes, a point every 2 seconds. Health, metrics and the console itself are left out."),
      el("div", {class: "charts"}, ...this.charts.map((chart) => chart.node)), this.rankings);
  }

  async scrape() {
    const time = Date.now();
    let after = null;
    try {
      after = parse((await api.request("GET", "/metrics")).text);
    } catch (error) {
      if (error instanceof api.Problem) throw error;
    }
    if (this.before) this.add(time, after, (time - this.time) / 1000);
    this.before = after;
    this.time = time;
  }

  add(time, after, elapsed) {
    charts.forEach(([, names, , values], i) => this.charts[i].add(time, after ? values(this.before, after, elapsed) : names.map(() => null)));
    if (!after) return;
    replace(this.rankings,
      ranking("Ops", ["op", "requests"], rates(this.before, after, "tensord_requests_total", "op", elapsed, isWork)),
      ranking("Tables", ["table", "rows read"], rates(this.before, after, "tensord_table_rows_read_total", "table", elapsed)),
      ranking("Errors", ["status", "requests"], rates(this.before, after, "tensord_requests_total", "code", elapsed, ({code}) => code >= "400")));
  }

  async start() {
    await this.scrape();
    this.timer = setInterval(() => {
      if (!document.hidden) this.scrape().catch(() => this.close());
    }, everyMs);
  }

  close() {
    clearInterval(this.timer);
  }
}

export async function open(node) {
  const view = new LiveView(node);
  await view.start();
  return view;
}
