// Single keys for what is changed often; never while a control takes keys itself.

/** `actions`: key -> function. While `held()`, no key counts. */
export function listen(actions, held) {
  document.addEventListener("keydown", (event) => {
    if (held() || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, dialog")) return;
    if (event.key === " " && event.target.closest("button, input, a, summary")) return;
    const action = actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
