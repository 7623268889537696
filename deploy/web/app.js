// The page's controls: connects what a visitor chooses with the stage. Knows no network and no pixels.
import { jsonOf } from "./bytes.js";
import { CtWindow } from "./ct_window.js";
import { listen } from "./keys.js";
import { Legend } from "./legend.js";
import { measurePanel } from "./measure_panel.js";
import { classesOf, isCt, Models, sizeOf } from "./models.js";
import { keepOffline } from "./offline.js";
import { openCamera, openFile, openSample } from "./sources.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const catalog = await jsonOf("/catalog.json").catch((error) => {
  fail(new Error(`${error.message}. Reload the page later.`));
  document.querySelector("main").inert = true;
  throw error;
});
const samples = await jsonOf("/samples/samples.json").catch(() => []);  // told where one is asked for
const models = new Models(catalog.bundles);
const stage = new Stage($("panes"), { onAreas: (shares) => { legend.areas = shares; }, onError: fail });
const legend = new Legend($("legend"), () => stage.redraw());
const ctWindow = new CtWindow($, () => stage.touch());
stage.view.hidden = legend.hidden;
const most = navigator.hardwareConcurrency || 1, isolated = self.crossOriginIsolated;
let threads = isolated ? Math.min(most, 8) : 1;
let open = null;  // what is on the stage: {current, beside, threads}
let pictures = 0, changes = 0;  // so many were asked for: of those still on their way only the last one counts
let coming = null;  // the picture that comes with the model on its way: {source, button}

function say(text) { $("status").textContent = text; $("status").classList.remove("error"); }
function fail(error) { $("status").textContent = error.message; $("status").classList.add("error"); }
const guarded = (action) => async (...given) => { try { await action(...given); } catch (error) { fail(error); } };

function option(value, text) { return Object.assign(document.createElement("option"), { value, textContent: text }); }

function fill(select, entries, textOf, chosen, first = []) {
  select.replaceChildren(...first, ...entries.map((entry) => option(entry.id, textOf(entry))));
  select.value = chosen?.id ?? "";
  select.disabled = select.options.length < 2;
}

const named = (entry) => `${models.label(entry)}, ${sizeOf(entry)}`;

function showChoices() {
  const { current, beside } = models;
  document.querySelectorAll("#domains input").forEach((input) => { input.checked = input.value === current.domain; });
  fill($("model"), models.models, (entry) => models.label(entry), current);
  fill($("size"), models.sizes, sizeOf, current);
  fill($("beside"), models.others, named, beside, [option("", "nothing")]);
  $("threads").value = threads;
  measure.show(current, threads);
}

/** A change of models or threads; what does not come about is taken back, unless a later one is on its way. */
const changing = (action) => guarded(async (...given) => {
  const mine = ++changes;
  try {
    await action(...given);
  } catch (error) {
    if (mine !== changes) return;
    coming = null;
    if (open) {
      Object.assign(models, { current: open.current, beside: open.beside });
      threads = open.threads;
    }
    showChoices();
    throw error;
  }
});

async function reopen() {
  showChoices();
  say("Loading the model");
  const { current, beside } = models, wanted = { current, beside, threads };
  if (!(await stage.open([current, beside].filter(Boolean), threads, named))) return;
  const before = open;
  open = wanted;
  const moved = before?.current.domain !== current.domain;
  if (moved || classesOf(before.current) !== classesOf(current)) {
    stage.view.colours = current.manifest.classes.map(({ colour }) => colour);
    legend.classes = current.manifest.classes;
  }
  if (coming) place(coming);
  else if (moved && isCt(current)) ctWindow.show(stage.source, current);
  tellPicture();
}

/** Switch to a model; with a picture of its kind, where this one is of the other. */
const choose = changing(async (entry, sample = null) => {
  const crosses = isCt(entry) !== isCt(models.current);
  models.choose(entry);
  showChoices();
  if (sample || crosses) {
    const mine = nextPicture(), wanted = sample ?? (isCt(entry) !== Boolean(stage.source?.isCt) ? fitting() : null);
    const source = wanted && (await sampled(wanted));
    if (source && mine === pictures) coming = { source, button: buttonOf(wanted) };
  }
  await reopen();
});

const byId = (id) => catalog.bundles.find((entry) => entry.id === id);
const fitting = () => samples.find(({ kind }) => (kind === "ct") === isCt(models.current)) ?? {};
const buttonOf = (sample) => document.querySelectorAll("#samples button")[samples.indexOf(sample)] ?? null;

async function sampled(sample) {
  if (!sample.file) throw new Error("the server sent no sample for this: reload the page");
  return openSample(sample);
}

function nextPicture() {
  coming = null;
  return ++pictures;
}

/** Open a picture and show it, unless another one was asked for meanwhile. */
async function show(from, button = null) {
  const mine = nextPicture();
  const source = await from().catch((error) => { if (mine === pictures) throw error; });
  if (mine !== pictures) return source?.close();
  if (source.isCt && !isCt(models.current)) throw new Error("16 bits, taken as a CT slice: that needs a CT model");
  place({ source, button });
  tellPicture();
}

function place({ source, button }) {
  coming = null;
  ctWindow.show(source, models.current);
  stage.set(source);
  for (const other of document.querySelectorAll(".bar [aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
  Object.assign($("pause"), { hidden: !source.live, textContent: "Pause" });
}

function tellPicture() {
  const { source } = stage;
  if (open) say(!source ? "" : isCt(models.current) && !source.isCt ? `${source.title}: a picture, not a CT slice` : source.title);
}

function tell(id) { document.querySelector(`output[for=${id}]`).value = `${$(id).value} %`; }

function viewChanged() {
  tell("opacity"); tell("divider");
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
      const fits = (entry) => isCt(entry) === (sample.kind === "ct"), entry = models.bundles.find(fits);
      if (!entry) throw new Error(`${sample.title} needs a ${sample.kind === "ct" ? "CT" : "colour"} model, and none is served`);
      await (fits(models.current) ? show(() => sampled(sample), button) : choose(entry, sample));
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
  document.ondrop = (event) => { event.preventDefault(); $("stage").classList.remove("drop"); if (!held()) take(event.dataTransfer.files[0]); };
}

function addDragging() {
  $("panes").onpointermove = $("panes").onpointerdown = (event) => {
    const canvas = event.target.closest("canvas");
    if (!canvas || !$("split").checked || !event.buttons) return;
    canvas.setPointerCapture(event.pointerId);  // it goes on where the pointer leaves the picture
    const box = canvas.getBoundingClientRect();
    $("divider").value = (100 * (event.clientX - box.left)) / box.width;
    viewChanged();
  };
}

const held = () => $("measure").disabled;

/** While a measurement runs, nothing else is chosen or computed. */
function hold(on) {
  for (const part of document.querySelectorAll(".bar, #choices, #ct")) part.inert = on;
  if (!on) return;
  stage.pause(true);
  $("pause").textContent = "Go on";
}

const measure = measurePanel({ ids: $, runtimeVersion: catalog.runtime_version, titleOf: named, hold });

addDomains(); addSamples(); addFiles(); addDragging();
const usual = [1, 2, 4, 8, 16].filter((n) => n === 1 || (isolated && n <= most));
$("threads").append(...[...new Set([...usual, threads])].map((n) => option(n, String(n))));
$("threads").value = threads;
$("threads").disabled = $("threads").options.length < 2;
$("model").onchange = $("size").onchange = ({ target }) => choose(byId(target.value));
$("beside").onchange = changing(({ target }) => { models.beside = byId(target.value) ?? null; return reopen(); });
$("threads").onchange = changing(({ target }) => { threads = Number(target.value); return reopen(); });
$("camera").onclick = guarded(() => show(openCamera));
$("pause").onclick = pause;
for (const id of ["opacity", "split", "divider"]) $(id).oninput = viewChanged;
$("help-open").onclick = () => $("help").showModal();
document.addEventListener("visibilitychange", () => stage.touch());
listen({
  " ": pause, d: nextDomain, m: () => next($("model")), b: () => next($("beside")), s: () => $("split").click(),
  "+": () => nudge($("opacity"), 10), "=": () => nudge($("opacity"), 10), "-": () => nudge($("opacity"), -10),
  n: () => { const buttons = [...document.querySelectorAll("#samples button")]; buttons[(buttons.findIndex((b) => b.ariaPressed === "true") + 1) % buttons.length]?.click(); },
  "?": () => $("help").showModal(),
}, held);
viewChanged();
globalThis.edgeseg = { stage, models, catalog };  // for the console and for tests
await changing(reopen)();
if (!stage.source) await guarded(() => show(() => sampled(fitting()), buttonOf(fitting())))();
$("offline").textContent = await keepOffline();
