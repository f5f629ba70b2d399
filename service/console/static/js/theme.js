// Sets the theme before the first paint, so that the page does not flash in other colours. The root's
// data-theme is light or dark; the user's choice may also be "", which follows the system.
(() => {
  const STORED = "hummingbit.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "";
  try {
    chosen = localStorage.getItem(STORED) ?? "";
  } catch {
    // Storage is disabled, so the choice lasts as long as the page.
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
      // Storage is disabled, as above.
    }
    show();
  };
  globalThis.hummingbitTheme = { chosen: () => chosen, choose };
  system.addEventListener("change", show);
  show();
})();
