// Sends keys, pressed or clicked, to the demo.
const keys = [" ", "d", "m", "+", "-", "q"];
const send = (key) => fetch("/key", { method: "POST", body: key });

document.querySelectorAll("button").forEach((button) => { button.onclick = () => send(button.dataset.key); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys.includes(event.key)) return;
  event.preventDefault();
  send(event.key);
});
