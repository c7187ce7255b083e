#!/bin/sh
# Installs what a lock file has, and the checkout: install.sh VENV LOCK [EXTRAS|locked]
#
# A package whose hash does not match always ends it. A version that an index does not have (a mirror, a platform without
# wheels) ends it in images ("locked") and where LOCKED=1 is set, as continuous integration does; a person's machine gets
# the ranges of setup.py then, with a warning.
set -eu
venv=$1 name=$2 extras=${3-}
cd "$(dirname "$0")/.."
log=$venv/install.log
pip="$venv/bin/python -m pip --disable-pip-version-check install -q --no-compile"
rm -rf ./*.egg-info # one that an older build left here would hide the entry points of this one

warn() { printf '\n*** %s\n\n' "$@" >&2; }

run() { # a command whose hashes must hold
  if "$@" >"$log" 2>&1; then return 0; fi
  if grep -qiE 'hash mismatch|do not match the hashes' "$log"; then
    cat "$log" >&2
    warn 'A package is not the one that is locked in requirements/: nothing of it was installed.'
    exit 1
  fi
  return 1
}

# A lock file has all that is needed; torch is there already, or is not wanted.
locked() { # uv installs in half a minute what takes pip four; where it cannot be had, pip does
  run "$venv/bin/uv" pip install -q --python "$venv/bin/python" --no-deps --require-hashes -r "requirements/$1.txt" ||
    run $pip --no-deps --require-hashes -r "requirements/$1.txt"
}

torch() { # without CUDA where such a build is locked: the others take several GB
  for index in '--index-url https://download.pytorch.org/whl/cpu --retries 0 --timeout 15' ''; do
    $pip --no-deps --require-hashes $index -r requirements/torch-cpu.txt 2>"$log" && return
  done
  [ "$(uname -s)" = Darwin ] || warn 'No build of torch without CUDA is locked for this machine: taking the large one.'
  locked torch
}

unlocked() {
  cat "$log" >&2
  if [ "${LOCKED:-}" = 1 ] || [ "$extras" = locked ]; then exit 1; fi
  warn 'THE LOCKED VERSIONS CANNOT BE HAD HERE: installing by the ranges of setup.py, without hashes.'
  $pip -e ".$extras"
  exit
}

run $pip --require-hashes -r requirements/tools.txt || unlocked
case $name in demo | test) torch || unlocked ;; esac
locked "$name" || unlocked
if [ "$extras" = locked ]; then # in an image, which keeps no checkout
  run $pip --no-deps --no-build-isolation . || unlocked
else
  run $pip --no-deps --no-build-isolation -e . || unlocked
fi
rm -f "$log"
