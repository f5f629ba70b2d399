// Re-exports the libraries and the theme, which script elements load before this module.
const { h, render, Fragment } = globalThis.preact;
const { useState, useEffect, useRef, useMemo, useCallback } = globalThis.preactHooks;
const { chosen: chosenTheme, choose: chooseTheme } = globalThis.hummingbitTheme;
const html = globalThis.htm.bind(h);

export { chooseTheme, chosenTheme, h, html, render, Fragment, useState, useEffect, useRef, useMemo, useCallback };
