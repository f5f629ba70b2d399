// Keys that work wherever the focus is, except where somebody writes.
import { useEffect, useRef } from "./lib.js";

const WRITTEN_IN = new Set(["INPUT", "TEXTAREA", "SELECT"]);

export function useKeys(handlers) {
  // Effects run after the page is painted. Whoever is quick presses a key before that, and it must do
  // what the page now shows.
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || WRITTEN_IN.has(event.target.tagName)) return;
      const handler = latest.current[event.key];
      if (!handler) return;
      event.preventDefault();
      handler();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
