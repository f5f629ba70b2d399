// Runs before the first paint: the page must not flash in the other colours. What is shown, light or
// dark, is the root's data-theme; what was chosen may also be neither, which is the system's.
(() => {
  const STORED = "hummingbit.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "";
  try {
    chosen = localStorage.getItem(STORED) ?? "";
  } catch {
    // Storage is off: the choice is that of this page only.
  }
  if (chosen !== "light" && chosen !== "dark") chosen = "";
  const show = () => {
    document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
    dispatchEvent(new Event("themechange"));
  };
  const choose = (theme) => {
    chosen = theme;
    try {
      localStorage.setItem(STORED, theme);
    } catch {
      // As above.
    }
    show();
  };
  globalThis.hummingbitTheme = { chosen: () => chosen, choose };
  system.addEventListener("change", show);
  show();
})();
