#!/bin/sh
# Builds Horovod for the torch of an environment, with gloo and nothing else: examples/build_horovod.sh .venv/bin/python
#
# Nothing is done where a Horovod that loads with this torch is there already. A few minutes of both cores otherwise.
# Needs a C++ compiler of C++17, make, and Python's headers; CMake comes from pip and does not stay.
set -eu

version=0.28.1
python=${1:?"say which Python to build for: $0 .venv/bin/python"}

complain() {
  printf '%s\n' "$@" >&2
  exit 1
}

loads() {
  "$python" - 2>/dev/null <<END
import horovod.torch
assert horovod.__version__ == "$version" and horovod.torch.gloo_built()
END
}

"$python" -c 'import torch' 2>/dev/null || complain "Horovod is built against a torch, and $python imports none: install torch first"
if loads; then
  echo "Horovod $version is there, and loads with this torch"
  exit 0
fi

for program in "${CC:-cc}:C compiler" "${CXX:-c++}:C++ compiler" "make:make"; do
  command -v "${program%%:*}" >/dev/null || complain \
    "Horovod is compiled, and there is no ${program#*:} (${program%%:*}) on the PATH." \
    "  Debian, Ubuntu: sudo apt-get install build-essential" \
    "  macOS:          xcode-select --install" \
    "  or set CC and CXX to the compilers that you have"
done
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$headers/Python.h" ] || complain \
  "Horovod is compiled, and Python's headers are not in $headers." \
  "  Debian, Ubuntu: sudo apt-get install python3-dev"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

# Horovod asks for C++14, and torch's headers need 17. Its CMake file leaves no other way to say so, nor to leave out the
# symbols for a debugger, which take memory and time.
cat >"$scratch/c++" <<END
#!/bin/sh
for argument; do
  shift
  case \$argument in
    -std=c++11 | -std=c++14 | -std=gnu++11 | -std=gnu++14) argument=-std=c++17 ;;
  esac
  set -- "\$@" "\$argument"
done
exec ${CXX:-c++} "\$@" -g0
END
chmod +x "$scratch/c++"

pip() {
  "$python" -m pip --disable-pip-version-check "$@"
}

# CMake 4 refuses Horovod's files, and a later setuptools has no pkg_resources; the environment keeps its own.
pip install --quiet --no-warn-conflicts --target "$scratch/build" "cmake>=3.13,<4" "setuptools>=70.1,<80" packaging
pip install --quiet cffi cloudpickle packaging psutil pyyaml

echo "building Horovod $version: some minutes"
# No cache: pip would keep the wheel by Horovod's version alone, and take it for another torch next time.
CXX="$scratch/c++" PYTHONPATH="$scratch/build" HOROVOD_CMAKE="$scratch/build/cmake/data/bin/cmake" \
  MAKEFLAGS="-j$(getconf _NPROCESSORS_ONLN)" \
  HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
  "$python" -m pip --disable-pip-version-check install --quiet --no-cache-dir --no-build-isolation --no-deps \
  --force-reinstall "horovod==$version"
loads || complain "Horovod was built and does not load: $("$python" -c 'import horovod.torch' 2>&1 | tail -1)"
