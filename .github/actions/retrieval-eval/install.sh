#!/usr/bin/env bash
# Find hummingbit, or install it into an environment of its own: from the repository that the action
# lies in. An action that was copied into another repository needs the input `requirement`.
set -euo pipefail

command=${HUMMINGBIT:-$(command -v hummingbit || true)}
if [ -z "$command" ]; then
  source=$(cd "$(dirname "$0")/../../.." && pwd)
  if [ -n "${REQUIREMENT:-}" ]; then
    wanted=$REQUIREMENT
  elif grep -qs '^name = "hummingbit"$' "$source/pyproject.toml"; then
    wanted="$source[report,parquet]"
  else
    echo 'hummingbit is not on the path: set the input requirement to what pip installs, such as hummingbit[report] @ git+https://…' >&2
    exit 2
  fi
  environment=${RUNNER_TEMP:?}/hummingbit
  "${PYTHON:-python3}" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet "$wanted"
  command=$environment/bin/hummingbit
fi
"$command" --version
echo "command=$command" >>"$GITHUB_OUTPUT"
