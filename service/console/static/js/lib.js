// The libraries, loaded before this module by plain script elements.
const { h, render, Fragment } = globalThis.preact;
const { useState, useEffect, useRef, useMemo, useCallback } = globalThis.preactHooks;
const html = globalThis.htm.bind(h);

export { h, html, render, Fragment, useState, useEffect, useRef, useMemo, useCallback };
