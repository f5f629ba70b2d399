#!/usr/bin/env bash
# Evaluate, put the table into the summary of the job, and leave the exit status to the last step:
# a gate that failed must not keep the figures from being seen.
set -euo pipefail

options=(--out "$OUT")
[ -z "${QUERIES:-}" ] || options+=(--queries "$QUERIES")
if [ -n "${URL:-}" ]; then
  options+=(--url "$URL")
else
  options+=(--data-dir "${DATA_DIR:-.}")
fi
[ -z "${QRELS:-}" ] || options+=(--qrels "$QRELS")
[ -z "${BASELINE:-}" ] || options+=(--baseline "$BASELINE")
[ -z "${GATE:-}" ] || options+=(--gate "$GATE")
# Without queries, relevant are the nearest documents, and the metric is that of nearness.
read -r -a metrics <<<"${QUERIES:+${METRICS:-}}"
[ "${#metrics[@]}" -eq 0 ] || options+=(--metrics "${metrics[@]}")
read -r -a arguments <<<"${ARGUMENTS:-}"

status=0
"${HUMMINGBIT:-hummingbit}" evaluate --collection "$COLLECTION" "${options[@]}" "${arguments[@]}" ||
  status=$?
echo "status=$status" >>"$GITHUB_OUTPUT"
if [ "$status" -le 1 ]; then
  cat "$OUT/report.md" >>"$GITHUB_STEP_SUMMARY"
fi
