# Sourced by the other scripts with their own arguments, before they do anything:
#   source scripts/help.sh "$@"
# Where -h or --help is among the arguments, prints the comment at the top of the script and ends it.
for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then
    awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "scripts/$(basename "$0")"
    exit 0
  fi
done
unset argument
