// What this browser says of its device, in the words of deploy/device: a figure it does not tell is null, and
// `absent` says why. Refuses to guess.

const NOT_TOLD = "a browser does not tell";

/** The `machine` of a report. */
export async function describe() {
  const hints = await navigator.userAgentData?.getHighEntropyValues?.(["architecture", "bitness", "model", "platformVersion"]).catch(() => ({})) ?? {};
  const found = {
    cpu_model: null,
    architecture: architecture(hints),
    cores: navigator.hardwareConcurrency || 1,
    memory_bytes: null,
    os: short([hints.platform ?? navigator.platform, hints.platformVersion].filter(Boolean).join(" ") || "not told"),
    python: null,
    platform: "browser",
    board: hints.model ? short(hints.model) : null,
    software: browser(),
    governor: null, max_clock_mhz: null, power_mode: null, clocks_locked: null, cpu_limit: null,
    memory_limit_bytes: null, throttled: null,
  };
  const absent = Object.fromEntries(Object.keys(found).filter((name) => found[name] === null).map((name) => [name, NOT_TOLD]));
  absent.python = "no Python in a browser";
  if (navigator.deviceMemory) absent.memory_bytes = `a browser tells it rounded, at most 8 GiB: ${navigator.deviceMemory}`;
  return { ...found, absent };
}

/** Name and version, "Chromium 156". */
export function browser() {
  const brands = navigator.userAgentData?.brands?.filter(({ brand }) => !/not.?a.?brand/i.test(brand)) ?? [];
  if (brands.length) return short(`${brands.at(-1).brand} ${brands.at(-1).version}`);
  const [, name, version] = /(Firefox|Version|Chrome)\/([\d.]+)/.exec(navigator.userAgent) ?? [];
  return short(name ? `${name === "Version" ? "Safari" : name} ${version}` : "an unknown browser");
}

function architecture({ architecture: name, bitness }) {
  if (name) return short(`${name}${bitness ? ` ${bitness} bit` : ""}`);
  return /aarch64|arm64/i.test(navigator.userAgent) ? "arm64" : /x86_64|x64|Win64/i.test(navigator.userAgent) ? "x86_64" : "not told";
}

const short = (text) => String(text).replace(/[^\x20-\x7e]/g, " ").slice(0, 200);
