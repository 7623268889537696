// The page's controls: connects what a visitor chooses with the stage. Knows no network and no pixels.
import { listen } from "./keys.js";
import { Legend } from "./legend.js";
import { measurePanel } from "./measure_panel.js";
import { classesOf, isCt, label, Models, sizeOf } from "./models.js";
import { keepOffline } from "./offline.js";
import { openCamera, openFile, openSample } from "./sources.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const catalog = await (await fetch("/catalog.json")).json();
const samples = await (await fetch("/samples/samples.json")).json();
const models = new Models(catalog.bundles);
const stage = new Stage($("panes"), { onAreas: (shares) => { legend.areas = shares; }, onError: fail });
const legend = new Legend($("legend"), () => stage.redraw());
stage.view.hidden = legend.hidden;
const most = navigator.hardwareConcurrency || 1, isolated = self.crossOriginIsolated;
let threads = isolated ? Math.min(most, 8) : 1;

function say(text) { $("status").textContent = text; $("status").classList.remove("error"); }
function fail(error) { $("status").textContent = error.message; $("status").classList.add("error"); }
const guarded = (action) => async (...given) => { try { await action(...given); } catch (error) { fail(error); } };

function option(value, text) { return Object.assign(document.createElement("option"), { value, textContent: text }); }

function fill(select, entries, textOf, chosen, first = []) {
  select.replaceChildren(...first, ...entries.map((entry) => option(entry.id, textOf(entry))));
  select.value = chosen?.id ?? "";
  select.disabled = select.options.length < 2;
}

const named = (entry) => `${label(entry)}, ${sizeOf(entry)}`;

function showChoices() {
  const { current, beside } = models;
  document.querySelectorAll("#domains input").forEach((input) => { input.checked = input.value === current.domain; });
  fill($("model"), models.models, label, current);
  fill($("size"), models.sizes, sizeOf, current);
  fill($("beside"), models.others, named, beside, [option("", "nothing")]);
  $("ct").hidden = !isCt(current);
  measure.show(current, threads);
}

async function reopen(newClasses) {
  showChoices();
  if (newClasses) {
    stage.view.colours = models.current.manifest.classes.map(({ colour }) => colour);
    legend.classes = models.current.manifest.classes;
  }
  say("Loading the model");
  const entries = [models.current, models.beside].filter(Boolean);
  await stage.open(entries, threads, named);
  say(stage.source ? stage.source.title : "");
}

const choose = guarded(async (entry) => {
  const before = models.current, moved = models.choose(entry), slice = Boolean(stage.source?.isCt);
  if (isCt(entry) !== isCt(before) && isCt(entry) !== slice) await showSample(fitting());
  else if (moved && slice) setWindow(stage.source, entry.manifest.preprocess.hu_window);
  await reopen(moved || classesOf(entry) !== classesOf(before));
});

const byId = (id) => catalog.bundles.find((entry) => entry.id === id);
const fitting = () => samples.find(({ kind }) => (kind === "ct") === isCt(models.current));
const showSample = (sample) => show(() => openSample(sample), document.querySelectorAll("#samples button")[samples.indexOf(sample)]);

async function show(open, button = null) {
  const source = await open();
  if (source.isCt && !isCt(models.current)) {
    source.close();
    throw new Error("16 bits, taken as a CT slice: that needs a CT model");
  }
  if (source.isCt) setWindow(source, models.current.manifest.preprocess.hu_window);
  stage.set(source);
  for (const other of document.querySelectorAll(".bar [aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
  Object.assign($("pause"), { hidden: !source.live, textContent: "Pause" });
  say(isCt(models.current) && !source.isCt ? `${source.title}: a picture, not a CT slice` : source.title);
}

function setWindow(source, [low, high]) {
  source.window = [low, high];
  $("level").value = (low + high) / 2;
  $("window").value = high - low;
  tell("level", " HU"); tell("window", " HU");
}

function tell(id, unit) { document.querySelector(`output[for=${id}]`).value = $(id).value + unit; }

function windowChanged() {
  const level = Number($("level").value), width = Number($("window").value);
  setWindow(stage.source, [level - width / 2, level + width / 2]);
  stage.touch();
}

function viewChanged() {
  tell("opacity", " %"); tell("divider", " %");
  $("divider").disabled = !$("split").checked;
  stage.view.opacity = $("opacity").value / 100;
  stage.view.split = $("split").checked ? $("divider").value / 100 : null;
  stage.redraw();
}

function pause() {
  if (!stage.source?.live) return;
  stage.pause(!stage.paused);
  $("pause").textContent = stage.paused ? "Go on" : "Pause";
}

function next(select) {
  if (select.options.length < 2) return;
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  select.dispatchEvent(new Event("change"));
}

function nudge(input, by) { input.value = Number(input.value) + by; viewChanged(); }

function nextDomain() {
  const names = models.domains, at = names.indexOf(models.current.domain);
  return choose(models.first(names[(at + 1) % names.length]));
}

function addDomains() {
  $("domains").append(...models.domains.map((name) => {
    const box = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "domain", value: name });
    input.onchange = () => choose(models.first(name));
    text.textContent = name;
    box.append(input, text);
    return box;
  }));
}

function addSamples() {
  $("samples").append(...samples.map((sample) => {
    const button = document.createElement("button"), image = document.createElement("img");
    Object.assign(button, { type: "button", title: sample.title });
    button.setAttribute("aria-pressed", "false");
    Object.assign(image, { src: sample.small ?? sample.file, alt: sample.title });
    button.append(image);
    button.onclick = guarded(async () => {
      if ((sample.kind === "ct") !== isCt(models.current)) {
        const entry = models.bundles.find((other) => isCt(other) === (sample.kind === "ct"));
        if (!entry) throw new Error(`${sample.title} needs a ${sample.kind === "ct" ? "CT" : "colour"} model, and none is served`);
        await choose(entry);
      }
      await showSample(sample);
    });
    return button;
  }));
}

function addFiles() {
  const take = guarded((file) => file && show(() => openFile(file)));
  $("open").onclick = () => $("file").click();
  $("file").onchange = () => { take($("file").files[0]); $("file").value = ""; };
  document.ondragover = (event) => { event.preventDefault(); $("stage").classList.add("drop"); };
  document.ondragleave = (event) => { if (!event.relatedTarget) $("stage").classList.remove("drop"); };
  document.ondrop = (event) => { event.preventDefault(); $("stage").classList.remove("drop"); take(event.dataTransfer.files[0]); };
}

function addDragging() {
  $("panes").onpointermove = $("panes").onpointerdown = (event) => {
    const canvas = event.target.closest("canvas");
    if (!canvas || !$("split").checked || !event.buttons) return;
    const box = canvas.getBoundingClientRect();
    $("divider").value = (100 * (event.clientX - box.left)) / box.width;
    viewChanged();
  };
}

const measure = measurePanel({
  ids: $, runtimeVersion: catalog.runtime_version,
  before: () => { stage.pause(true); $("pause").textContent = "Go on"; },
});

addDomains(); addSamples(); addFiles(); addDragging();
const usual = [1, 2, 4, 8, 16].filter((n) => n === 1 || (isolated && n <= most));
$("threads").append(...[...new Set([...usual, threads])].map((n) => option(n, String(n))));
$("threads").value = threads;
$("threads").disabled = $("threads").options.length < 2;
$("model").onchange = $("size").onchange = ({ target }) => choose(byId(target.value));
$("beside").onchange = guarded(({ target }) => { models.beside = byId(target.value) ?? null; return reopen(false); });
$("threads").onchange = guarded(({ target }) => { threads = Number(target.value); return reopen(false); });
$("camera").onclick = guarded(() => show(openCamera));
$("pause").onclick = pause;
for (const id of ["opacity", "split", "divider"]) $(id).oninput = viewChanged;
for (const id of ["level", "window"]) $(id).oninput = windowChanged;
$("window-reset").onclick = () => { setWindow(stage.source, models.current.manifest.preprocess.hu_window); stage.touch(); };
$("help-open").onclick = () => $("help").showModal();
document.addEventListener("visibilitychange", () => stage.touch());
listen({
  " ": pause, d: nextDomain, m: () => next($("model")), b: () => next($("beside")), s: () => $("split").click(),
  "+": () => nudge($("opacity"), 10), "=": () => nudge($("opacity"), 10), "-": () => nudge($("opacity"), -10),
  n: () => { const buttons = [...document.querySelectorAll("#samples button")]; buttons[(buttons.findIndex((b) => b.ariaPressed === "true") + 1) % buttons.length].click(); },
  "?": () => $("help").showModal(),
});
viewChanged();
globalThis.edgeseg = { stage, models, catalog };  // for the console and for tests
await guarded(async () => {
  await showSample(fitting());
  await reopen(true);
})();
$("offline").textContent = await keepOffline();
