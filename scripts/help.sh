# Sourced by the other scripts with their arguments, before they do anything:
#   source scripts/help.sh "$@"
# If -h or --help is among them, prints the comment at the top of the script and exits.
for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then
    awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "scripts/$(basename "$0")"
    exit 0
  fi
done
unset argument
