// A job that a page has started, or found running.
import { useEffect, useRef, useState } from "./lib.js";
import { follow } from "./api.js";

/** The job's progress, and its error if it fails. `onDone` is not called after the page is left. */
export function useJob(onDone) {
  const [busy, setBusy] = useState(false);
  const [job, setJob] = useState(null);
  const [error, setError] = useState(null);
  const leaving = useRef(null);
  leaving.current ??= new AbortController();
  useEffect(() => () => leaving.current.abort(), []);
  const run = async (begin) => {
    const { signal } = leaving.current;
    setBusy(true);
    setError(null);
    try {
      const { id } = await begin();
      const done = await follow(id, setJob, signal);
      if (!signal.aborted) onDone(done);
    } catch (problem) {
      if (!signal.aborted) setError(problem);
    }
    setBusy(false);
    setJob(null);
  };
  return { busy, job, error, run };
}
