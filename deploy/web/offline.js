// Whether the page is kept for use without its server; says so in words.

/** Register the service worker where browsers allow one; returns what to tell the visitor. */
export async function keepOffline() {
  const why = "not kept for offline use: that needs localhost or a certificate that this browser trusts";
  if (!window.isSecureContext || !navigator.serviceWorker) return `This page is ${why}.`;
  try {
    await navigator.serviceWorker.register("/sw.js");
    await navigator.serviceWorker.ready;
    return "Works offline now: this browser has kept the page and its models.";
  } catch {
    return `This page is ${why}.`;
  }
}
