// The libraries and the theme, loaded before this module by plain script elements.
const { h, render, Fragment } = globalThis.preact;
const { useState, useEffect, useRef, useMemo, useCallback } = globalThis.preactHooks;
const { chosen: chosenTheme, choose: chooseTheme } = globalThis.hummingbitTheme;
const html = globalThis.htm.bind(h);

export { chooseTheme, chosenTheme, h, html, render, Fragment, useState, useEffect, useRef, useMemo, useCallback };
