#!/usr/bin/env bash
# Compile the transducer losses that have no wheels against the installed PyTorch, for the whole table of `stopwav loss`.
#
#     scripts/build_loss_peers.sh [--into DIR] [--sources DIR] [--arch 9.0] [NAME ...]
#
# NAME is warp_rnnt, fast_rnnt (which `k2` and `k2-pruned` use) or optimized_transducer; without any, all three. Each is the
# released source from PyPI, checked by its digest, with the changes below that today's compilers need; none of them
# changes what a loss computes. They are installed beside PyTorch, or with --into in a folder for PYTHONPATH: it works on
# any machine with the same Python and PyTorch. --sources is a folder with the archives already downloaded. --arch is the
# compute capability to compile for, by default that of the GPU here; a machine that only compiles needs no GPU.
#
# Needs nvcc of PyTorch's CUDA version, CMake, make, and setuptools < 82 and pybind11 in PyTorch's environment, whose Python
# is $PYTHON (python3). Cores to compile on: $MAX_JOBS. FT_CMAKE_ARGS and OT_CMAKE_ARGS are further arguments to CMake of
# fast_rnnt and optimized_transducer.
set -euo pipefail

PYTHON=${PYTHON:-python3}
MAX_JOBS=${MAX_JOBS:-$(nproc)}
export MAX_JOBS
PYPI=https://files.pythonhosted.org/packages
declare -A ARCHIVES=(
    [warp_rnnt]=$PYPI/aa/49/c8bc73ff674e8150ec0c1561555c8bd06e4c2ca6437f7b44142e79797478/warp_rnnt-0.7.0.tar.gz
    [fast_rnnt]=$PYPI/d2/74/8e9f00ec0357e135f11f272bb3c956ff1ab5b8d8083ac24db9bfdcece034/fast_rnnt-1.3.tar.gz
    [optimized_transducer]=$PYPI/8c/57/a39fef57e1f0a09fcca8ca239eb60320c1f6b47da6570f5743e93919ce13/optimized_transducer-1.4.tar.gz
)
declare -A DIGESTS=(
    [warp_rnnt]=d50d34defc1377856bbf79b854bc2699bb87f5e48d82f5eb0151e610782d98a5
    [fast_rnnt]=e8758e43e074daec17cbb8fd4c50026045b3b35ed88728854fdbe3590087f0a9
    [optimized_transducer]=fba52ff27b4eabe3001a52a209f91f6fbc8d1f892f70a9b40c2f214687edfdaa
)

fail() {
    echo "build_loss_peers: $1" >&2
    exit 1
}

check_tools() {
    "$PYTHON" -c 'import torch' 2> /dev/null || fail "$PYTHON has no PyTorch; name its Python as PYTHON=…"
    # A newer CMake may be installed beside PyTorch: the one of the system has to know the nvcc.
    PATH=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
    local missing
    missing=$("$PYTHON" -c '
import importlib.util
names = ("setuptools", "pkg_resources", "pybind11")
print(*(name for name in names if importlib.util.find_spec(name) is None))')
    [ -z "$missing" ] || fail "$PYTHON has no $missing: $PYTHON -m pip install 'setuptools<82' pybind11"
    local tool
    for tool in nvcc cmake make; do
        command -v "$tool" > /dev/null || fail "$tool is not on the PATH"
    done
    local ours theirs
    ours=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
    theirs=$("$PYTHON" -c 'import torch; print(torch.version.cuda or "")')
    [ -n "$theirs" ] || fail "the PyTorch of $PYTHON has no CUDA"
    [ "$ours" = "$theirs" ] || fail "nvcc is of CUDA $ours and PyTorch of CUDA $theirs: put the nvcc of $theirs on the PATH"
    # The nvcc on the PATH may be a link or a script: it knows best where its toolkit is.
    CUDA_HOME=${CUDA_HOME:-$(realpath "$(nvcc --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')")}
    export CUDA_HOME
}

# The compute capability of the first GPU here.
own_arch() {
    "$PYTHON" -c 'import torch; print("%d.%d" % torch.cuda.get_device_capability())' 2> /dev/null ||
        fail "no GPU here: give the compute capability to compile for, as --arch 9.0"
}

# The source of a package, unpacked in the folder that is named second.
unpack() {
    local archive=${SOURCES:-$2}/${ARCHIVES[$1]##*/}
    if [ ! -f "$archive" ]; then
        [ -z "$SOURCES" ] || fail "$archive does not exist; it is ${ARCHIVES[$1]}"
        curl --fail --silent --show-error --location --output "$archive" "${ARCHIVES[$1]}"
    fi
    echo "${DIGESTS[$1]}  $archive" | sha256sum --check --quiet || fail "$archive is not the released file"
    mkdir "$2/source"
    tar --extract --gzip --file "$archive" --directory "$2/source" --strip-components 1
}

# Its setup refuses to compile where no GPU is.
patch_warp_rnnt() {
    sed -i 's/if not torch.cuda.is_available():/if False:/' setup.py
}

# pybind11 of 2020, which the build downloads, does not know Python 3.12; PyTorch's headers need C++ 17 or later; the list
# of GPUs to compile for ends in 2020; and a module linked to one libpython loads in no Python that was built without it.
patch_cmake() {
    echo 'find_package(pybind11 CONFIG REQUIRED)' > cmake/pybind11.cmake
    sed -i '/\${PYTHON_LIBRARY}$/d' "$1/python/csrc/CMakeLists.txt"
    sed -i -e 's/set(CMAKE_CXX_STANDARD 14/set(CMAKE_CXX_STANDARD 20/' \
        -e "s/set(\(.._COMPUTE_ARCH_CANDIDATES\) .*)/set(\1 ${ARCH/./})/" \
        -e '/list(APPEND .._COMPUTE_ARCH_CANDIDATES /d' CMakeLists.txt
}

cmake_arguments() {
    local includes
    includes=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    echo "-DCMAKE_BUILD_TYPE=Release -DCUDA_TOOLKIT_ROOT_DIR=$CUDA_HOME -DPYTHON_EXECUTABLE=$("$PYTHON" -c 'import sys; print(sys.executable)')" \
        "-DPYTHON_INCLUDE_DIRS=$includes -Dpybind11_DIR=$("$PYTHON" -m pybind11 --cmakedir)"
}

build() {
    local folder log started=$SECONDS
    folder=$(mktemp -d)
    log=$folder/log
    unpack "$1" "$folder"
    echo "build_loss_peers: compiling $1 for $ARCH, log in $log" >&2
    (
        cd "$folder/source"
        export TORCH_CUDA_ARCH_LIST=$ARCH
        case $1 in
            warp_rnnt) patch_warp_rnnt ;;
            *) patch_cmake "$1" ;;
        esac
        FT_CMAKE_ARGS="$(cmake_arguments) -DFT_BUILD_TESTS=OFF ${FT_CMAKE_ARGS:-}"
        OT_CMAKE_ARGS="$(cmake_arguments) ${OT_CMAKE_ARGS:-}"
        export FT_CMAKE_ARGS OT_CMAKE_ARGS FT_MAKE_ARGS="-j $MAX_JOBS" OT_MAKE_ARGS="-j $MAX_JOBS"
        "$PYTHON" -m pip install --no-deps --no-index --no-build-isolation --verbose ${INTO:+--upgrade --target "$INTO"} .
    ) > "$log" 2>&1 || {
        tail -n 20 "$log" >&2
        return 1
    }
    echo "build_loss_peers: $1 is built, in $((SECONDS - started)) s" >&2
    rm -r "$folder"
}

INTO='' SOURCES='' ARCH='' NAMES=()
while [ $# -gt 0 ]; do
    case $1 in
        --into | --sources | --arch)
            [ $# -gt 1 ] || fail "$1 needs a value"
            case $1 in
                --into) INTO=$(realpath -m "$2") ;;
                --sources) SOURCES=$(realpath -m "$2") ;;
                --arch) ARCH=$2 ;;
            esac
            shift
            ;;
        -h | --help) sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        *)
            [ -n "${ARCHIVES[$1]:-}" ] || fail "$1: give one of warp_rnnt, fast_rnnt, optimized_transducer"
            NAMES+=("$1")
            ;;
    esac
    shift
done
[ -z "$ARCH" ] || [[ $ARCH =~ ^[0-9]+\.[0-9]$ ]] || fail "--arch $ARCH: give one compute capability, as 9.0"
check_tools
ARCH=${ARCH:-$(own_arch)}
[ ${#NAMES[@]} -gt 0 ] || NAMES=(warp_rnnt fast_rnnt optimized_transducer)
failed=()
for name in "${NAMES[@]}"; do
    build "$name" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || fail "not built: ${failed[*]}; its last lines are above"
