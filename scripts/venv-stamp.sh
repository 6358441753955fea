# Whether .venv holds what a lock file pins, told by a stamp beside it, in builtins alone: asking starts no program.
# The stamp says where the checkout lies, which file its Python is, and the whole lock. Sourced by ./tonnage and
# scripts/setup-venv.

# is_set_up HERE LOCKFILE
is_set_up() {
  local python="$1/.venv/bin/python" stamp="$1/.venv/.installed-${2##*/}" where="" interpreter=""
  [[ -r $stamp ]] || return 1
  { read -r where && read -r interpreter; } < "$stamp" || return 1
  # A Python that the system removed, or replaced by another release, is another file than it was.
  [[ -x $python && $python -ef $interpreter && "$(<"$stamp")" == "$1"$'\n'"$interpreter"$'\n'"$(<"$2")" ]]
}

# remember_set_up HERE LOCKFILE
remember_set_up() {
  printf '%s\n' "$1" "$(readlink -f "$1/.venv/bin/python")" "$(<"$2")" > "$1/.venv/.installed-${2##*/}"
}
