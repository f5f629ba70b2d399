// Keys that work wherever the focus is, except where somebody writes.
import { useEffect } from "./lib.js";

const WRITTEN_IN = new Set(["INPUT", "TEXTAREA", "SELECT"]);

export function useKeys(handlers) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || WRITTEN_IN.has(event.target.tagName)) return;
      const handler = handlers[event.key];
      if (!handler) return;
      event.preventDefault();
      handler();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
