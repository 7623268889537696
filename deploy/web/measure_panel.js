// The panel "Measure this device": runs measure.js, shows the figures, sends the report to the page's own server.
import { measure } from "./measure.js";

/** `ids(id)` finds elements; `hold(on)` is called at both ends of a run. Returns {show(entry, threads)}. */
export function measurePanel({ ids, runtimeVersion, titleOf, hold }) {
  const button = ids("measure"), bar = ids("measure-progress"), result = ids("measure-result");
  let chosen = null;
  const title = ({ entry, threads }) => `${titleOf(entry)}, ${threads} thread${threads > 1 ? "s" : ""}`;

  async function run() {
    const what = chosen;
    button.disabled = true;
    bar.hidden = false;
    result.replaceChildren();
    hold(true);
    try {
      const report = await measure(what.entry, what.threads, runtimeVersion, (share, step) => {
        bar.value = share;
        button.textContent = `Measuring: ${step}`;
      });
      result.append(figures(title(what), report), await send(report));
    } catch (error) {
      result.append(paragraph(error.message, "bad"));
    } finally {
      button.disabled = false;
      button.textContent = "Measure";
      bar.hidden = true;
      hold(false);
    }
  }

  button.onclick = run;
  return {
    show(entry, threads) {
      if (chosen?.entry !== entry || chosen?.threads !== threads) result.replaceChildren();
      chosen = { entry, threads };
      const images = entry.evaluation ? `${entry.evaluation.pairs.length} labelled images` : "no labelled images: speed only";
      ids("measure-what").textContent = `${title(chosen)}; ${images}.`;
    },
  };
}

function figures(title, { latency_ms: latency, throughput_fps: fps, miou, noise }) {
  const list = document.createElement("dl");
  const rows = [
    ["model", title],
    ["frames a second", fps.toFixed(1)],
    ["p50, p90, p99 in ms", [latency.p50, latency.p90, latency.p99].map((v) => v.toFixed(1)).join(", ")],
    ["mIoU", miou === null ? "no labels" : miou.toFixed(4)],
    ["golden", "verified"],
    ["machine", noise.noisy ? "noisy" : "quiet"],
  ];
  for (const [name, value] of rows)
    list.append(...["dt", "dd"].map((tag, i) => Object.assign(document.createElement(tag), { textContent: [name, value][i] })));
  return list;
}

async function send(report) {
  let response;
  try {
    response = await fetch("/reports", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(report) });
  } catch {
    return paragraph("Not sent: the server does not answer.", "bad");
  }
  const answer = await response.json().catch(() => ({ error: `status ${response.status}` }));
  if (!response.ok) return paragraph(`Not taken: ${answer.error}`, "bad");
  const done = paragraph("Sent. "), link = document.createElement("a");
  Object.assign(link, { href: "/reports", textContent: "See all measurements" });
  done.append(link);
  return done;
}

function paragraph(text, kind = "") {
  return Object.assign(document.createElement("p"), { textContent: text, className: kind });
}
