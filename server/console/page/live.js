// Charts of the server's activity over the last 15 minutes, while the page is open. Each point is the difference of two scrapes of /metrics.

import * as api from "./api.js";
import {Chart} from "./chart.js";
import {labelClass} from "./colours.js";
import {el, replace, scroll} from "./dom.js";
import {by, distribution, parse, quantile, sum} from "./exposition.js";
import {bytes, count, seconds} from "./numbers.js";

const everyMs = 2000, spanMs = 15 * 60 * 1000, mostLines = 8;
const mostColumns = 5; // columns in a table that fits next to another

// True for real work, not requests from this page or from probes.
const isWork = ({op}) => !["health", "metrics", "metadata", "console", "none"].includes(op);

const rate = (n) => count(n, "/s");

const duration = (n) => (n === null ? "–" : seconds(n));

// The samples of two scrapes that are `elapsed` seconds apart.
class Interval {
  constructor(before, after, elapsed) {
    Object.assign(this, {before, after, elapsed});
  }

  rate(name, fits) {
    return (sum(this.after, name, fits) - sum(this.before, name, fits)) / this.elapsed;
  }

  // Returns [name, rate] for each value of a label, the highest first, without zero rates.
  rates(name, label, fits) {
    const first = by(this.before, name, label, fits), last = by(this.after, name, label, fits);
    return Object.entries(last).map(([key, value]) => [key, (value - (first[key] ?? 0)) / this.elapsed]).filter(([, one]) => one > 0).sort((a, b) => b[1] - a[1]);
  }

  // Returns {p50, p90, p99} of a histogram; a percentile is null if the histogram counted nothing.
  percentiles(name, fits) {
    const found = distribution(this.before, this.after, name, fits);
    return Object.fromEntries(Object.entries(percentiles).map(([percentile, part]) => [percentile, quantile(found, part)]));
  }

  // Percentiles of whole requests.
  latency(fits = isWork) {
    return this.percentiles("tensord_request_duration_seconds", fits);
  }

  // Returns {mean, p50, p90, p99} of a stage, over requests that succeeded.
  stage(stage, wanted = isWork) {
    const fits = (labels) => labels.stage === stage && wanted(labels), n = this.rate("tensord_stage_duration_seconds_count", fits);
    return {mean: n > 0 ? this.rate("tensord_stage_duration_seconds_sum", fits) / n : null, ...this.percentiles("tensord_stage_duration_seconds", fits)};
  }

  // Returns {decode: ..., queue: ...} for each statistic in `kinds`.
  stages() {
    const found = stages.map((stage) => [stage, this.stage(stage)]);
    return Object.fromEntries(Object.keys(kinds).map((kind) => [kind, Object.fromEntries(found.map(([stage, values]) => [stage, values[kind]]))]));
  }

  // Returns the rates of the device, or null if there is no device.
  device() {
    if (!this.after.has("tensord_device_batches_total")) return null;
    return {calls: this.rate("tensord_device_calls_total"), batches: this.rate("tensord_device_batches_total"), "failed calls": this.rate("tensord_device_failed_calls_total")};
  }
}

const stages = ["decode", "queue", "compute", "encode"], percentiles = {p50: 0.5, p90: 0.9, p99: 0.99};

// How to draw each statistic of the stages. The means of the stages add up to the mean of the whole; percentiles do not.
const kinds = {mean: "bars", p50: "lines", p90: "lines", p99: "lines"};

const perBatch = ({calls, batches}) => (batches > 0 ? `; ${count(calls / batches)} calls per batch` : "");

const top = (rates) => Object.fromEntries(rates.slice(0, mostLines));

// Each chart: title, options for Chart, and a function that returns the values of an interval, or null if there is nothing to chart.
const charts = [
  ["Requests", {names: ["answered", "refused or failed"], format: rate}, (of) => ({
    "answered": of.rate("tensord_requests_total", (labels) => isWork(labels) && labels.code < "400"),
    "refused or failed": of.rate("tensord_requests_total", (labels) => isWork(labels) && labels.code >= "400")})],
  ["Latency", {kind: "band", names: Object.keys(percentiles), format: seconds, unit: "seconds"}, (of) => of.latency()],
  ["Stages", {choices: kinds, names: stages, format: seconds, unit: "seconds"}, (of) => of.stages()],
  ["Errors", {kind: "bars", format: rate}, (of) => top(of.rates("tensord_errors_total", "error", isWork))],
  ["Tables, rows read", {format: rate}, (of) => top(of.rates("tensord_table_rows_read_total", "table"))],
  ["Batches on the device", {names: ["calls", "batches", "failed calls"], format: rate, also: perBatch}, (of) => of.device()],
  ["Queue", {names: ["jobs waiting", "requests in flight"], format: (n) => count(n)}, (of) => ({"jobs waiting": sum(of.after, "tensord_queue_jobs"), "requests in flight": sum(of.after, "tensord_requests_in_flight")})],
  ["Memory", {names: ["in use", "the process"], format: bytes, unit: "bytes"}, (of) => ({"in use": sum(of.after, "tensord_memory_bytes"), "the process": sum(of.after, "process_resident_memory_bytes")})],
  ["Bodies", {names: ["received", "sent"], format: (n) => `${bytes(n)}/s`, unit: "bytes"}, (of) => ({received: of.rate("tensord_request_bytes_total", isWork), sent: of.rate("tensord_reply_bytes_total", isWork)})],
];

function ranking(title, heads, lines) {
  return el("section", {class: heads.length > mostColumns ? "ranking wide" : "ranking", "aria-label": title}, el("h3", {}, title), lines.length
    ? scroll(title, el("table", {class: "listing"}, el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", {scope: "col", class: i && !Array.isArray(head) ? "number" : ""}, head)))),
      el("tbody", {}, ...lines.map(([name, ...cells]) => el("tr", {}, el("td", {class: "text"}, name), ...cells.map((cell) => el("td", {}, cell)))))))
    : el("p", {class: "empty"}, "none"));
}

const stageHead = () => stages.flatMap((stage, i) => [el("i", {class: `swatch ${labelClass(i)}`, "aria-hidden": "true"}), `${stage} `]);

function opLines(of) {
  return of.rates("tensord_requests_total", "op", isWork).slice(0, mostLines).map(([op, requests]) => {
    const own = (labels) => labels.op === op, {p50, p99} = of.latency(own);
    return [op, rate(requests), duration(p50), duration(p99), rate(of.rate("tensord_errors_total", own))];
  });
}

// Draws the means of an op's stages side by side, on the same scale for all ops.
function stageBar(means, longest) {
  const parts = means.map((mean, i) => {
    const part = el("i", {class: labelClass(i)});
    part.style.width = `${(100 * mean) / longest}%`;
    return part;
  });
  return el("div", {class: "stage-bar", role: "img", "aria-label": stages.map((stage, i) => `${stage} ${duration(means[i])}`).join(", ")}, ...parts);
}

function stageLines(of) {
  const ops = of.rates("tensord_stage_duration_seconds_count", "op", (labels) => isWork(labels) && labels.stage === "compute").slice(0, mostLines);
  const lines = ops.map(([op]) => ({op, found: stages.map((stage) => of.stage(stage, (labels) => labels.op === op))})).map((line) => ({...line, total: line.found.reduce((all, {mean}) => all + mean, 0)}));
  const longest = Math.max(...lines.map(({total}) => total));
  return lines.map(({op, found, total}) => [op, stageBar(found.map(({mean}) => mean), longest), seconds(total), ...found.map(({p99}) => duration(p99))]);
}

function tableLines(of) {
  return of.rates("tensord_table_lookups_total", "table").slice(0, mostLines).map(([table, lookups]) => {
    const own = (labels) => labels.table === table;
    return [table, rate(lookups), rate(of.rate("tensord_table_lookups_total", (labels) => own(labels) && labels.result === "failed")),
      rate(of.rate("tensord_table_rows_read_total", own)), `${bytes(of.rate("tensord_table_bytes_read_total", own))}/s`];
  });
}

const errorLines = (of) => of.rates("tensord_errors_total", "error", isWork).slice(0, mostLines).map(([error, times]) =>
  [el("a", {href: `/problems/${error.toLowerCase().replace(/_/g, "-")}`}, error), rate(times)]);

// The kernel reports the start time relative to now, accurate to a few milliseconds. A new process is at least one scrape younger.
const isSameProcess = (before, after) => Math.abs(sum(before, "process_start_time_seconds") - sum(after, "process_start_time_seconds")) < everyMs / 2000;

class LiveView {
  constructor() {
    this.charts = charts.map(([title, options]) => new Chart(title, {...options, span: spanMs}));
    this.rankings = el("div", {class: "rankings"});
    this.problem = el("p", {class: "problem-text", role: "status"});
    this.parts = [this.problem, el("p", {class: "help"}, "One point every 2 seconds since you opened this page, for up to 15 minutes. Health checks, metrics and the console's own requests are left out."),
      el("div", {class: "charts"}, ...this.charts.map((chart) => chart.node)), this.rankings];
  }

  // Returns the current samples, or null after showing why there are none.
  async samples() {
    try {
      const {text} = await api.request("GET", "/metrics");
      replace(this.problem);
      this.refused = false;
      const samples = parse(text);
      this.onsamples?.(samples);
      return samples;
    } catch (error) {
      this.refused = error instanceof api.Problem;
      replace(this.problem, `No metrics: ${error.message}`);
      return null;
    }
  }

  // Runs one scrape at a time; late replies would be out of order.
  async scrape() {
    if (this.scraping) return;
    this.scraping = true;
    const time = Date.now(), begun = performance.now(), after = await this.samples();
    this.scraping = false;
    // Counters of different processes cannot be subtracted.
    const known = after && this.before && isSameProcess(this.before, after);
    if (this.begun !== undefined) this.add(time, known ? new Interval(this.before, after, (begun - this.begun) / 1000) : null);
    this.before = after;
    this.begun = begun;
  }

  // `of`: an interval, or null for a gap.
  add(time, of) {
    charts.forEach(([, , values], i) => {
      const found = of && values(of);
      this.charts[i].node.hidden = Boolean(of && !found) || (this.charts[i].node.hidden && !of);
      this.charts[i].add(time, found);
    });
    if (!of) return;
    replace(this.rankings, ranking("Ops", ["op", "requests", "p50", "p99", "errors"], opLines(of)),
      ranking("Tables", ["table", "lookups", "failed", "rows", "read"], tableLines(of)), ranking("Errors", ["code", "times"], errorLines(of)),
      ranking("Stages by op", ["op", stageHead(), "mean", ...stages.map((stage) => `p99 ${stage}`)], stageLines(of)));
  }

  // Scrapes until the page is closed, whichever view is shown. After the server refuses, scrapes only while this view is shown.
  start() {
    this.scrape();
    api.onToken(() => {
      this.refused = false;
    });
    setInterval(() => {
      if (!document.hidden && (this.isShown || !this.refused)) this.scrape();
    }, everyMs);
  }

  close() {
    this.isShown = false;
  }
}

let view;

// `onsamples`: called with the samples of each scrape.
export function watch(onsamples) {
  if (!view) {
    view = new LiveView();
    view.start();
  }
  if (onsamples) view.onsamples = onsamples;
}

export function open(node) {
  watch();
  view.isShown = true;
  replace(node, ...view.parts);
  return view;
}
