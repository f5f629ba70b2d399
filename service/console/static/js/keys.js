// Keyboard shortcuts, which work wherever the focus is, except in fields and beside an open dialog.
import { useEffect, useRef } from "./lib.js";

const FIELDS = new Set(["INPUT", "TEXTAREA", "SELECT"]);

export function useKeys(handlers) {
  // Effects run after the page is painted. A key that is pressed before that must already do what the
  // page now shows.
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const onKeyDown = (event) => {
      if (event.defaultPrevented || event.isComposing || event.target.isContentEditable || document.querySelector("dialog[open]")) return;
      if (event.ctrlKey || event.metaKey || event.altKey || FIELDS.has(event.target.tagName)) return;
      const handler = latest.current[event.key];
      if (!handler) return;
      event.preventDefault();
      handler();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}
