// Sends keys, pressed or clicked, to the demo, and says when it has ended.
const keys = [" ", "d", "m", "+", "=", "-", "q"];
const send = (key) => fetch("/key", { method: "POST", body: key }).catch(end);

function end() {
  document.querySelector("p").textContent = "The demo has ended.";
}

fetch("/end").catch(() => null).then(end);
document.querySelectorAll("button").forEach((button) => { button.onclick = () => send(button.dataset.key); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys.includes(event.key.toLowerCase())) return;
  event.preventDefault();
  send(event.key);
});
