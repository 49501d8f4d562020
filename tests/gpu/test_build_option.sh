#!/usr/bin/env bash
# test_build_option.sh - what -DTD_GPU=AUTO, ON and OFF say when they find nvcc, or do not. The toolkit has
# no content: nothing is compiled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

toolkit=$work/cuda
mkdir -p "$toolkit"/{bin,include,lib64}
printf '#!/bin/sh\necho sm_90\n' >"$toolkit/bin/nvcc"
chmod +x "$toolkit/bin/nvcc"
echo '#define CUBLAS_VER_MAJOR 13' >"$toolkit/include/cublas_api.h"
touch "$toolkit"/include/{cuda_runtime_api.h,cublas_v2.h} "$toolkit/lib64/libcudart_static.a"

# expect STATUS TEXT OPTION...: configures from nothing; its exit status is 0 or 1, and it says the text.
expect() {
    rm -rf "$work/build"
    expect_again "$@"
}

# The same in the build folder as it is.
expect_again() {
    local status=0 said
    said=$(cmake -S . -B "$work/build" -DTD_ONLY=gpu "${@:3}" 2>&1) || status=1
    said=$(tr -s ' \n' ' ' <<<"$said")
    if [ "$status" -ne "$1" ] || ! [[ $said == *$2* ]]; then
        printf 'cmake %s: exit status %s; expected %s and "%s" in\n%s\n' "${*:3}" "$status" "$1" "$2" "$said" >&2
        exit 1
    fi
}

found="CUDA found, $toolkit/bin/nvcc: a full build includes the CUDA plugin, which takes minutes; -DTD_GPU=OFF leaves it out"
expect 0 "$found" "-DTD_NVCC=$toolkit/bin/nvcc"
expect 0 "$found" -DTD_GPU=ON "-DTD_NVCC=$toolkit/bin/nvcc"
expect 0 "TD_GPU is OFF: the CUDA plugin is not built" -DTD_GPU=OFF "-DTD_NVCC=$toolkit/bin/nvcc"
expect 0 "A sanitizer is on: the CUDA plugin is not built" -DTD_SANITIZE=thread "-DTD_NVCC=$toolkit/bin/nvcc"
expect 0 "no nvcc found: the CUDA plugin is not built" -DTD_NVCC=
expect 1 "TD_GPU is ON, but the CUDA plugin cannot be built: no nvcc found. -DTD_GPU=OFF builds without the plugin" -DTD_GPU=ON -DTD_NVCC=
expect 1 "TD_GPU is ON, but the CUDA plugin cannot be built with a sanitizer, TD_SANITIZE=thread. -DTD_GPU=OFF builds without the plugin" \
    -DTD_GPU=ON -DTD_SANITIZE=thread "-DTD_NVCC=$toolkit/bin/nvcc"

# old_folder VALUE: a build folder without nvcc, of a version whose option TD_GPU was ON by default.
old_folder() {
    rm -rf "$work/build"
    mkdir "$work/build"
    printf '%s\n' "TD_GPU:BOOL=$1" TD_NVCC:FILEPATH= >"$work/build/CMakeCache.txt"
}
old_folder ON
expect_again 0 "no nvcc found: the CUDA plugin is not built"
expect_again 1 "TD_GPU is ON, but the CUDA plugin cannot be built: no nvcc found" -DTD_GPU=ON
expect_again 1 "TD_GPU is ON, but the CUDA plugin cannot be built: no nvcc found"
old_folder ON
expect_again 1 "TD_GPU is ON, but the CUDA plugin cannot be built: no nvcc found" -DTD_GPU=ON
old_folder OFF
expect_again 0 "TD_GPU is OFF: the CUDA plugin is not built"

printf '#!/bin/sh\necho sm_30\n' >"$toolkit/bin/nvcc"
expect 0 "nvcc supports no compute capability of 75 to 120: the CUDA plugin is not built" "-DTD_NVCC=$toolkit/bin/nvcc"
expect 1 "-DTD_GPU=OFF builds without the plugin" -DTD_GPU=ON "-DTD_NVCC=$toolkit/bin/nvcc"
echo "TD_GPU says what it does"
