// Runs before the first paint: the page must not flash in the other colours.
(() => {
  let chosen = "";
  try {
    chosen = localStorage.getItem("hummingbit.theme") || "";
  } catch {
    // Storage is off: the system's colours are used.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
