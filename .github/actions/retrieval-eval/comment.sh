#!/usr/bin/env bash
# Comment the Markdown report on a pull request; a later run replaces the comment.
set -euo pipefail

marker="<!-- hummingbit evaluate $COLLECTION -->"
comments="repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments"
body="$(printf '%s\n\n%s' "$marker" "$(cat "$OUT/report.md")")"
# jq gets the marker as data: a collection's name is not a program.
id="$(gh api --paginate "$comments" |
  jq -r --arg marker "$marker" '.[] | select(.body | startswith($marker)) | .id' | head -n 1)"
if [ -n "$id" ]; then
  gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -f body="$body" >/dev/null
else
  gh api --method POST "$comments" -f body="$body" >/dev/null
fi
