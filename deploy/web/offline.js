// Whether the page is kept for use without its server; says so in words.

/** Register the service worker where browsers allow one; returns what to tell the visitor. */
export async function keepOffline() {
  const why = "not kept for offline use: that needs localhost or a certificate that this browser trusts";
  if (!window.isSecureContext || !navigator.serviceWorker) return `This page is ${why}.`;
  try {
    await navigator.serviceWorker.register("/sw.js");
    const { kept, why } = await keepNow((await navigator.serviceWorker.ready).active);
    if (kept) return "Works offline now: this browser has kept the page and its models.";
    return why === null ? "The server does not answer: this is the page as this browser has kept it."
      : `This page is not kept for offline use: ${why}`;
  } catch {
    return `This page is ${why}.`;
  }
}

/** Have the worker keep what the server has now, which may be other models than last time. */
function keepNow(worker) {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    worker.postMessage("keep", [port2]);
  });
}
