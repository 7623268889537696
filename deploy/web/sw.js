// Keeps the page, onnxruntime-web and the models, and answers with them when the server does not.
// The server is asked first, so that a reload shows what it has now.

const CACHE = "edgeseg";
const LATER = /^\/bundles\/.*(golden\.npz|\/eval\/)/;  // only needed to measure, which needs the server

self.addEventListener("install", (event) => event.waitUntil(keepAll().then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => {
  const tell = (kept) => event.ports[0].postMessage(kept);
  event.waitUntil(keepAll().then(() => tell(true), () => tell(false)));
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || url.pathname === "/reports") return;
  event.respondWith(answer(event.request, url));
});

async function keepAll() {
  const cache = await caches.open(CACHE), { files } = await (await fetch("/catalog.json")).json();
  const wanted = ["/catalog.json", ...Object.keys(files).filter((path) => !LATER.test(path))];
  await cache.addAll(wanted);  // all or nothing
  for (const old of await cache.keys()) if (!wanted.includes(new URL(old.url).pathname)) await cache.delete(old);
}

async function answer(request, url) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok && !LATER.test(url.pathname)) await cache.put(url.pathname, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(url.pathname);
    if (kept) return kept;
    throw error;
  }
}
