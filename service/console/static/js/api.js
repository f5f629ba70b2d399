// Requests to the service that this page came from. The key lives in this tab only.
const STORED = "hummingbit.key";
const BASE = new URL("../", document.baseURI);

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The service answered ${status}`);
    this.status = status;
    this.code = body.code || "";
    this.errors = body.errors || [];
  }
}

let key = sessionStorage.getItem(STORED);
let askForKey = () => {};

export const hasKey = () => key !== null;

/** Use a key from now on, or none if it is null. */
export function setKey(value) {
  key = value;
  if (value === null) sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, value);
}

/** Call `handler` with the reason whenever the service requires another key. */
export function onKeyNeeded(handler) {
  askForKey = handler;
}

async function send(method, path, { body, prefer, accept, signal, type, createOnly } = {}) {
  const headers = { Accept: accept || "application/json" };
  const sent = key;
  if (sent !== null) headers.Authorization = `Bearer ${sent}`;
  if (prefer) headers.Prefer = prefer;
  if (createOnly) headers["If-None-Match"] = "*";
  if (body !== undefined) headers["Content-Type"] = type || "application/json";
  const content = body === undefined || type ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(new URL(path, BASE), { method, headers, body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The service cannot be reached." });
  }
  if (response.ok) return response;
  const problem = new Problem(response.status, await response.json().catch(() => ({})));
  // Of several requests with one key, the first to be refused asks.
  if (problem.status === 401 && sent === key) askForKey(problem.message);
  throw problem;
}

const readJson = async (response) => (response.status === 204 ? null : response.json());

export const get = async (path, options) => readJson(await send("GET", path, options));
export const post = async (path, body, options) => readJson(await send("POST", path, { body, ...options }));
export const put = async (path, body, options) => readJson(await send("PUT", path, { body, ...options }));
export const remove = async (path, options) => readJson(await send("DELETE", path, options));
export const bytes = async (path) => (await send("GET", path, { accept: "*/*" })).arrayBuffer();
export const text = async (path) => (await send("GET", path, { accept: "*/*" })).text();

/** The path of a collection below the service's address. */
export const pathOf = (collection) => `v1/collections/${encodeURIComponent(collection)}`;

/** The latest jobs of a kind, newest first. */
export async function jobsOf(kind, collection, limit = 20) {
  const query = new URLSearchParams({ kind, limit: String(limit) });
  if (collection) query.set("collection", collection);
  return (await get(`v1/jobs?${query}`)).jobs;
}

/** Wait until a job is finished, and return it; call `onProgress` with its record meanwhile. */
export async function follow(id, onProgress, signal) {
  for (let wait = 150; ; wait = Math.min(1500, wait * 1.4)) {
    const job = await get(`v1/jobs/${encodeURIComponent(id)}`, { signal });
    onProgress(job);
    if (job.finished) {
      if (job.state === "done") return job;
      throw new Problem(409, { detail: job.error ? job.error.detail : `The job was ${job.state}.` });
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** Save data as a file. A link to the service would not send the key. */
export function save(name, data, type) {
  const url = URL.createObjectURL(new Blob([data], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const address = new URL(".", BASE).href.replace(/\/$/, "");
