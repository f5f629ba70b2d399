// The frame of the console: the key, the navigation and the current page.
import { chooseTheme, chosenTheme, html, render, useCallback, useEffect, useState } from "./lib.js";
import { get, hasKey, onKeyNeeded, setKey } from "./api.js";
import { Button, Failure, Field, Note, Segments, Waiting } from "./parts.js";

const PAGES = [
  ["overview", "Overview", () => import("./pages/overview.js")],
  ["search", "Search", () => import("./pages/search.js")],
  ["map", "Map", () => import("./pages/map.js")],
  ["codes", "Codes", () => import("./pages/codes.js")],
  ["evaluation", "Evaluation", () => import("./pages/evaluation.js")],
  ["judging", "Judging", () => import("./pages/judging.js")],
  ["training", "Training", () => import("./pages/training.js")],
  ["duplicates", "Duplicates", () => import("./pages/duplicates.js")],
];
// The scripts of the other pages are loaded once the first page has had time to load.
const OTHER_PAGES_DELAY = 3000;
const ROLES = ["read", "write", "admin"];

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: path || "overview", params: Object.fromEntries(new URLSearchParams(query)) };
}

const pageOf = (route) => PAGES.find(([name]) => name === route.page) || PAGES[0];

const link = (page, params = {}) => {
  const pairs = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(pairs).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
};

function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const update = () => setRoute(readRoute());
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

/** The component of a page: the default export of its module, which may still be loading. */
function usePage(load) {
  const [loaded, setLoaded] = useState({});
  useEffect(() => {
    let left = false;
    load().then(
      (module) => left || setLoaded({ load, Page: module.default }),
      () => left || setLoaded({ load, error: new Error("This page could not be loaded. Reload it in the browser.") }),
    );
    return () => { left = true; };
  }, [load]);
  return loaded.load === load ? loaded : {};
}

function KeyDialog({ reason, onKey }) {
  const [typed, setTyped] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (typed.trim()) onKey(typed.trim());
  };
  return html`<main class="gate">
    <form onSubmit=${submit} class="panel">
      <h1>hummingbit</h1>
      <p>This service requires a key. The key stays in this tab and is forgotten when the tab closes.</p>
      ${reason && html`<p class="note bad" role="alert">${reason}</p>`}
      <${Field} label="Key">
        <input type="password" autocomplete="off" autofocus value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} />
      <//>
      <button class="button primary" type="submit">Continue</button>
    </form>
  </main>`;
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(chosenTheme);
  const choose = (value) => {
    setTheme(value);
    chooseTheme(value);
  };
  return html`<${Segments} label="Colours" value=${theme} onChange=${choose}
    options=${[["", "Auto"], ["light", "Light"], ["dark", "Dark"]]} />`;
}

function Navigation({ current, access, collection, onLeave }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [current]);
  return html`<header class=${open ? "side open" : "side"}>
    <div class="brand">
      <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><path d="M1 13 9 6l6-4-5 6-4 6z" /></svg>
      <span>hummingbit</span>
      <button type="button" class="icon menu" aria-expanded=${String(open)} aria-controls="pages" aria-label="Menu" onClick=${() => setOpen(!open)}>☰</button>
    </div>
    <nav id="pages" aria-label="Pages">
      ${PAGES.map(
        ([name, title]) => html`<a href=${link(name, { collection })} aria-current=${name === current ? "page" : null}>${title}</a>`,
      )}
      <a href="../docs" class="apart">API</a>
    </nav>
    <div class="foot">
      <${ThemeSwitch} />
      <p>${access.version} · ${access.read_only ? "read-only" : access.role}</p>
      ${hasKey() && html`<${Button} kind="small" onClick=${onLeave}>Forget the key<//>`}
    </div>
  </header>`;
}

function App() {
  const route = useRoute();
  const [access, setAccess] = useState(null);
  const [listed, setListed] = useState({ collections: [], unavailable: [] });
  const [aliases, setAliases] = useState({});
  const [keyReason, setKeyReason] = useState(null);
  const [error, setError] = useState(null);
  const reload = useCallback(async () => {
    const [found, named] = await Promise.all([get("v1/collections"), get("v1/aliases")]);
    setListed(found);
    setAliases(Object.fromEntries(named.aliases.map((alias) => [alias.alias, alias.collection])));
  }, []);
  const begin = useCallback(async () => {
    setError(null);
    try {
      const [allowed] = await Promise.all([get("v1/access"), reload()]);
      setAccess(allowed);
      setKeyReason(null);
    } catch (problem) {
      if (problem.status !== 401) setError(problem);
    }
  }, []);
  useEffect(() => {
    onKeyNeeded((reason) => {
      setAccess(null);
      setKeyReason(hasKey() ? reason : "");
      setKey(null);
    });
    begin();
  }, []);
  const requested = aliases[route.params.collection] ?? route.params.collection;
  const { collections } = listed;
  const exists = collections.some((each) => each.name === requested);
  useEffect(() => {
    // The collection may have been created since the list was read.
    if (access && requested && !exists) reload().catch(() => {});
  }, [requested]);
  const [page, title, load] = pageOf(route);
  const { Page, error: unloaded } = usePage(load);
  useEffect(() => {
    if (access && page === "overview") reload().catch(() => {}); // the page itself reports why
  }, [page]);
  useEffect(() => {
    document.title = `${title} · hummingbit`;
  }, [title]);
  if (keyReason !== null)
    return html`<${KeyDialog} reason=${keyReason} onKey=${(key) => { setKey(key); setKeyReason(null); begin(); }} />`;
  if (error) return html`<main class="gate"><${Failure} error=${error} /><${Button} onClick=${begin}>Try again<//></main>`;
  if (!access) return html`<main class="gate"><${Waiting} /></main>`;
  const rank = ROLES.indexOf(access.role);
  const can = (role) => rank >= ROLES.indexOf(role) && (role === "read" || !access.read_only);
  const collection = exists ? requested : collections[0]?.name;
  const setParams = (changes) => {
    location.hash = link(page, { ...route.params, ...changes });
  };
  const leave = () => { setKey(null); setAccess(null); setKeyReason(""); };
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <${Navigation} current=${page} access=${access} collection=${exists ? collection : ""} onLeave=${leave} />
    <main id="main" tabindex="-1">
      ${requested && !exists && html`<${Note} kind="warn">There is no collection or alias ${requested}.${collection ? ` This page shows ${collection}.` : ""}<//>`}
      <${Failure} error=${unloaded} />
      ${Page ? html`<${Page} key=${page} access=${access} can=${can} listed=${listed} aliases=${aliases} collections=${collections}
        collection=${collection} params=${route.params} setParams=${setParams} reload=${reload} link=${link} />` : !unloaded && html`<${Waiting} />`}
    </main>`;
}

pageOf(readRoute())[2]().catch(() => {}); // the application reports the failure
setTimeout(() => PAGES.forEach(([, , load]) => load().catch(() => {})), OTHER_PAGES_DELAY);
render(html`<${App} />`, document.getElementById("app"));
