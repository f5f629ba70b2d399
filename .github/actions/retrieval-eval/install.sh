#!/usr/bin/env bash
# Find hummingbit, or install it into an environment of its own: from the repository that the action
# lies in, or from PyPI where the action was copied into another one.
set -euo pipefail

command=${HUMMINGBIT:-$(command -v hummingbit || true)}
if [ -z "$command" ]; then
  source=$(cd "$(dirname "$0")/../../.." && pwd)
  if [ -n "${REQUIREMENT:-}" ]; then
    wanted=$REQUIREMENT
  elif grep -qs '^name = "hummingbit"$' "$source/pyproject.toml"; then
    wanted="$source[report,parquet]"
  else
    wanted='hummingbit[report,parquet]'
  fi
  environment=${RUNNER_TEMP:?}/hummingbit
  "${PYTHON:-python3}" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet "$wanted"
  command=$environment/bin/hummingbit
fi
"$command" --version
echo "command=$command" >>"$GITHUB_OUTPUT"
