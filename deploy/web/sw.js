// Keeps the page, onnxruntime-web and the models, and answers with them when the server does not.
// The server is asked first, so that a reload shows what it has now.

const CACHE = "edgeseg";
const LATER = /^\/bundles\/.*(golden\.npz|\/eval\/)/;  // only needed to measure, which needs the server

self.addEventListener("install", (event) => event.waitUntil(self.skipWaiting()));
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => {
  event.waitUntil(keep().then((told) => event.ports[0].postMessage(told)));
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || url.pathname === "/reports") return;
  event.respondWith(answer(event.request, url));
});

/** Keep what the server has now: {kept, why}, `why` null where the server does not answer. */
async function keep() {
  let answer;
  try {
    answer = await fetch("/catalog.json");
  } catch {
    return { kept: false, why: null };
  }
  try {
    await keepAll(await answer.json());
    return { kept: true };
  } catch (error) {
    return { kept: false, why: error.message };
  }
}

async function keepAll({ files }) {
  const cache = await caches.open(CACHE);
  const wanted = ["/catalog.json", ...files.filter((path) => !LATER.test(path))];
  await cache.addAll(wanted);  // all or nothing
  for (const old of await cache.keys()) if (!wanted.includes(new URL(old.url).pathname)) await cache.delete(old);
}

async function answer(request, url) {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await (await caches.open(CACHE)).match(url.pathname);
    if (kept) return kept;
    throw error;
  }
}
